// SPDX-License-Identifier: Apache-2.0

package cniinstall_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/examples/agent/internal/cniinstall"
	"github.com/wayleave/wayleave/examples/internal/smalldisk"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

const conflist = `{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "wayleave"}]}`

// node returns the configuration of an installation on a node.
func node(t *testing.T) cniinstall.Config {
	t.Helper()
	dir := t.TempDir()
	cfg := cniinstall.Config{
		Plugin: filepath.Join(dir, "plugin"), Conflist: []byte(conflist),
		BinDir: filepath.Join(dir, "opt/cni/bin"), ConfDir: filepath.Join(dir, "etc/cni/net.d"),
	}
	require.NoError(t, os.WriteFile(cfg.Plugin, []byte("version 1"), 0o600))
	return cfg
}

// installed returns the content of the installed files, by name.
func installed(t *testing.T, cfg cniinstall.Config) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, folder := range []string{cfg.BinDir, cfg.ConfDir} {
		entries, _ := os.ReadDir(folder) // a missing folder has no entries
		for _, e := range entries {
			data, err := os.ReadFile(filepath.Join(folder, e.Name()))
			require.NoError(t, err)
			found[e.Name()] = string(data)
		}
	}
	return found
}

func inode(t *testing.T, path string) (inode uint64, mode os.FileMode) {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(path, &stat))
	return stat.Ino, os.FileMode(stat.Mode & 0o777)
}

// A new version replaces the file atomically. Unchanged files are not written. Unfinished files of
// a killed run are removed.
func TestInstall(t *testing.T) {
	cfg := node(t)
	plugin, config := filepath.Join(cfg.BinDir, "wayleave"), filepath.Join(cfg.ConfDir, "10-wayleave.conflist")
	require.NoError(t, cniinstall.Install(cfg))
	require.Equal(t, map[string]string{"wayleave": "version 1", "10-wayleave.conflist": conflist}, installed(t, cfg))
	first, mode := inode(t, plugin)
	require.Equal(t, os.FileMode(0o755), mode)
	configInode, mode := inode(t, config)
	require.Equal(t, os.FileMode(0o600), mode)

	running, err := os.Open(plugin) // as a runtime that calls it
	require.NoError(t, err)
	defer func() { require.NoError(t, running.Close()) }()
	require.NoError(t, os.WriteFile(cfg.Plugin, []byte("version 2"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.BinDir, ".wayleave-install-1"), []byte("vers"), 0o600))
	require.NoError(t, cniinstall.Install(cfg))
	require.Equal(t, map[string]string{"wayleave": "version 2", "10-wayleave.conflist": conflist}, installed(t, cfg))
	second, _ := inode(t, plugin)
	require.NotEqual(t, first, second)
	again, _ := inode(t, config)
	require.Equal(t, configInode, again)
	old := make([]byte, 9)
	_, err = running.Read(old)
	require.NoError(t, err)
	require.Equal(t, "version 1", string(old), "an open file keeps the old content")
}

// An invalid configuration is refused before anything is installed. The plugin is installed before
// the configuration.
func TestInstallRefuses(t *testing.T) {
	cfg := node(t)
	for text, want := range map[string]string{
		"{": "is not valid",
		`{"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}`: `no plugin of type "wayleave"`,
	} {
		cfg.Conflist = []byte(text)
		require.ErrorContains(t, cniinstall.Install(cfg), want)
	}
	require.Empty(t, installed(t, cfg))
	cfg.Conflist = []byte(conflist)
	require.NoError(t, os.Remove(cfg.Plugin))
	require.ErrorContains(t, cniinstall.Install(cfg), cfg.Plugin)
	require.Empty(t, installed(t, cfg))
}

// On a full disk, the old plugin stays unchanged, no part of the new one is left, and no
// configuration is installed.
func TestInstallOnAFullDisk(t *testing.T) {
	disk, err := smalldisk.New(64 << 10)
	require.NoError(t, err)
	defer func() { require.NoError(t, disk.Close()) }()
	cfg := node(t)
	cfg.BinDir = filepath.Join(disk.Path(), "bin")
	require.NoError(t, os.Mkdir(cfg.BinDir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.BinDir, "wayleave"), []byte("version 1"), 0o755))
	require.NoError(t, os.WriteFile(cfg.Plugin, make([]byte, 128<<10), 0o600))
	require.ErrorIs(t, cniinstall.Install(cfg), unix.ENOSPC)
	require.Equal(t, map[string]string{"wayleave": "version 1"}, installed(t, cfg))
}

func TestPodCIDRs(t *testing.T) {
	template := []byte(`{"ranges": "POD_CIDRS"}`)
	require.True(t, cniinstall.NeedsPodCIDRs(template))
	require.False(t, cniinstall.NeedsPodCIDRs([]byte(conflist)))
	got, err := cniinstall.WithPodCIDRs(template, "n1", []string{"10.1.2.0/24", "2001:db8::/64"})
	require.NoError(t, err)
	require.JSONEq(t, `{"ranges": [[{"subnet": "10.1.2.0/24"}], [{"subnet": "2001:db8::/64"}]]}`, string(got))
	_, err = cniinstall.WithPodCIDRs(template, "n1", nil)
	require.ErrorContains(t, err, "node n1 has no pod CIDR")
	_, err = cniinstall.WithPodCIDRs(template, "n1", []string{"10.1.2.0"})
	require.ErrorContains(t, err, "10.1.2.0")
}
