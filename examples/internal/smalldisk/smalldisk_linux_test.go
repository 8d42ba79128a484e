// SPDX-License-Identifier: Apache-2.0

package smalldisk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/smalldisk"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func TestFillAndFree(t *testing.T) {
	disk, err := smalldisk.New(16 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, disk.Close()) }()
	dir := disk.Path()
	file := filepath.Join(dir, "a")
	require.ErrorIs(t, os.WriteFile(file, make([]byte, 20<<10), 0o600), syscall.ENOSPC)
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, make([]byte, 8<<10), 0o600))
	require.NoError(t, disk.Fill())
	require.ErrorIs(t, os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o600), syscall.ENOSPC)
	require.NoError(t, disk.Free())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
}
