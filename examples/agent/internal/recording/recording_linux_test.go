// SPDX-License-Identifier: Apache-2.0

package recording_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/recording"
	"github.com/wayleave/wayleave/examples/internal/smalldisk"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func create(t *testing.T, path string, limit int64) *recording.File {
	t.Helper()
	f, err := recording.Create(path, limit)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

// If the disk becomes full in the middle of a line, the file keeps the complete lines. Nothing more
// is written, even if the disk has space again.
func TestFullDisk(t *testing.T) {
	disk, err := smalldisk.New(16 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, disk.Close()) }()
	dir := disk.Path()
	path := filepath.Join(dir, "recording")
	f := create(t, path, 1<<30)
	line := strings.Repeat("x", 4500) + "\n"
	_, err = f.Write([]byte(line + line))
	require.NoError(t, err)
	_, err = f.Write([]byte(line + line))
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, path)
	require.Equal(t, line+line+line, content(t, path))
	_, again := f.Write([]byte("x\n"))
	require.Equal(t, err, again)
	require.Equal(t, line+line+line, content(t, path))
}

func TestLimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	f := create(t, path, 10)
	_, err := f.Write([]byte("abc\nde"))
	require.NoError(t, err)
	_, err = f.Write([]byte("f\nghi\n"))
	require.ErrorIs(t, err, recording.ErrFull)
	require.Equal(t, "abc\ndef\n", content(t, path))
	_, err = f.Write([]byte("x"))
	require.ErrorIs(t, err, recording.ErrFull)
}

// The recording of the previous run is kept. A path that is not a regular file is refused and stays
// unchanged.
func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording")
	for _, text := range []string{"one\n", "two\n", "three\n"} {
		_, err := create(t, path, 100).Write([]byte(text))
		require.NoError(t, err)
	}
	require.Equal(t, "three\n", content(t, path))
	require.Equal(t, "two\n", content(t, path+".1"))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	_, err = recording.Create("/dev/null", 100)
	require.ErrorContains(t, err, "/dev/null: is not a regular file")
	link := path + ".link"
	require.NoError(t, os.Symlink(path, link))
	_, err = recording.Create(link, 100)
	require.ErrorContains(t, err, "is not a regular file")
	require.Equal(t, "three\n", content(t, path))
	_, err = recording.Create(filepath.Join(path, "x"), 100)
	require.ErrorIs(t, err, syscall.ENOTDIR)
}
