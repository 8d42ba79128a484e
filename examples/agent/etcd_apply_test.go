// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/examples/internal/cli"
)

// If etcd does not answer, the error has its address.
func TestApplyWithoutNodes(t *testing.T) {
	s := settings.Defaults()
	s.Etcd = "http://127.0.0.1:1"
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // long enough to read the files
	defer cancel()
	path := filepath.Join(folderOf(t, map[string]string{"pods.yaml": goodPods}), "pods.yaml")
	err := apply(ctx, cli.Console{}, s, applyOptions{paths: []string{path}, owner: "test"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, s.Etcd+": etcd: ")
}
