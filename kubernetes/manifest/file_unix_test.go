// SPDX-License-Identifier: Apache-2.0

//go:build unix

package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/wayleave/wayleave/kubernetes/manifest"
)

// Files that cannot be read are reported. The other files of the folder are read.
func TestReadDirReportsIrregularFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("b.yaml"), []byte(namespace("b")), 0o600))
	elsewhere := filepath.Join(t.TempDir(), "target")
	require.NoError(t, os.WriteFile(elsewhere, []byte(namespace("a")), 0o600))
	require.NoError(t, os.Symlink(elsewhere, path("a.yaml")))
	require.NoError(t, syscall.Mkfifo(path("c.yaml"), 0o600)) // no process writes to it
	require.NoError(t, os.Symlink("/dev/zero", path("d.yaml")))
	require.NoError(t, os.Symlink(dir, path("e.yaml")))
	require.NoError(t, os.WriteFile(path("f.yaml"), nil, 0o600))
	require.NoError(t, os.Truncate(path("f.yaml"), manifest.MaxFileSize+1))

	resources, problems := manifest.ReadDir(dir)
	require.Equal(t, []string{"Profile/kns.a", "Profile/kns.b"}, keys(resources))
	require.Equal(t, strings.Join([]string{
		path("c.yaml") + ": read: not a regular file",
		path("d.yaml") + ": read: not a regular file",
		path("e.yaml") + ": read: not a regular file",
		path("f.yaml") + ": read: the file has more than 67108864 bytes",
	}, "\n"), texts(problems))
	require.ErrorIs(t, problems[0], manifest.ErrNotRegular)
	require.ErrorIs(t, problems[3], manifest.ErrTooLarge)

	_, problems = manifest.ReadFiles(path("d.yaml"))
	require.Len(t, problems, 1)
	require.ErrorIs(t, problems[0], manifest.ErrTooLarge)
}
