// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// A key is generated once, and written to a file that only its owner can read.
func TestKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "first.key")
	key, err := loadKey(path)
	require.NoError(t, err)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	require.Equal(t, info.ModTime(), key.made)
	directory, err := os.Stat(filepath.Dir(path))
	require.NoError(t, err)
	require.Equal(t, os.ModeDir|0o700, directory.Mode())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, key.key.String()+"\n", string(text))
	reloaded, err := loadKey(path)
	require.NoError(t, err)
	require.Equal(t, key, reloaded)

	// A file that a killed process has partly written does not stop the next process.
	require.NoError(t, os.WriteFile(path+".new", []byte("half"), 0o644))
	other, err := makeKey(path)
	require.NoError(t, err)
	require.NotEqual(t, key.key, other.key)
	require.NoFileExists(t, path+".new")
	reloaded, err = loadKey(path)
	require.NoError(t, err)
	require.Equal(t, other, reloaded)
}

// A file with an invalid key is an error, which does not contain the text of the file. The file
// stays.
func TestKeyFileIsRefused(t *testing.T) {
	key, err := wgtypes.GeneratePrivateKey()
	require.NoError(t, err)
	secret := key.String()
	files := map[string]func(path string) error{
		"readable by others": func(path string) error { return os.WriteFile(path, []byte(secret), 0o640) },
		"short":              func(path string) error { return os.WriteFile(path, []byte(secret[:40]), 0o600) },
		"empty":              func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"long": func(path string) error {
			return os.WriteFile(path, []byte(strings.Repeat(secret+"\n", 9)), 0o600)
		},
		"zero":      func(path string) error { return os.WriteFile(path, []byte(wgtypes.Key{}.String()), 0o600) },
		"FIFO":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"link":      func(path string) error { return os.Symlink("/dev/null", path) },
		"directory": func(path string) error { return os.Mkdir(path, 0o700) },
	}
	if foreign := filepath.Join(t.TempDir(), "key"); os.WriteFile(foreign, nil, 0o600) == nil &&
		os.Chown(foreign, 1, 1) == nil { // needs CAP_CHOWN
		files["another user's"] = func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(secret), 0o600), os.Chown(path, 1, 1))
		}
	}
	for name, make := range files {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			require.NoError(t, make(path))
			before, err := os.Lstat(path)
			require.NoError(t, err)
			_, err = loadKey(path)
			require.ErrorIs(t, err, ErrKey)
			require.NotContains(t, err.Error(), secret[:20])
			require.Contains(t, err.Error(), path)
			after, err := os.Lstat(path)
			require.NoError(t, err)
			require.Equal(t, before.ModTime(), after.ModTime())
		})
	}
	// If a key cannot be written, the old one stays.
	path := filepath.Join(t.TempDir(), "key")
	old, err := loadKey(path)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(path+".new", 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(path+".new", "file"), nil, 0o600))
	_, err = makeKey(path)
	require.ErrorIs(t, err, ErrKey)
	reloaded, err := loadKey(path)
	require.NoError(t, err)
	require.Equal(t, old, reloaded)
}
