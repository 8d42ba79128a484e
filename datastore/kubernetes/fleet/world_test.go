// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDebugState(t *testing.T) {
	w := newWorld(config{Nodes: 5, PodsPerNode: 6, Policies: 5, Processes: 1})
	s, err := w.state("node-00000")
	require.NoError(t, err)
	t.Log(s)
}
