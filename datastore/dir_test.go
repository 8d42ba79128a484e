// SPDX-License-Identifier: Apache-2.0

package datastore_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
)

func TestNewDirRefusesBadConfig(t *testing.T) {
	dir, err := datastore.NewDir(datastore.DirConfig{Extensions: []string{"json", "."}, MaxSize: -1, Recheck: -1})
	require.Nil(t, dir)
	for _, want := range []string{
		"datastore: DirConfig.Path: required", `Extensions: "json"`, `Extensions: "."`,
		"MaxSize: must not be negative", "Recheck: must not be negative",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestDirIsUnsupportedOutsideLinux(t *testing.T) {
	if runtime.GOOS == "linux" {
		return // see dir_linux_test.go
	}
	dir, err := datastore.NewDir(datastore.DirConfig{Path: t.TempDir()})
	require.NoError(t, err)
	require.ErrorIs(t, dir.Run(t.Context(), newReceiver()), errors.ErrUnsupported)
}
