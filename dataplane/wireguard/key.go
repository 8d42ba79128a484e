// SPDX-License-Identifier: Apache-2.0

package wireguard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
)

// keyMode is the mode of a key file, directoryMode that of its directory if writeKey creates it.
const (
	keyMode       fs.FileMode = 0o600
	directoryMode fs.FileMode = 0o700
	// maxKeyFile is the maximum size of a key file in bytes. A key and a line break have 45.
	maxKeyFile = 64
)

// privateKey is a private key and the time of its file.
type privateKey struct {
	key  wgtypes.Key
	made time.Time
}

// loadKey reads a key file, or creates it with a new key. Errors wrap ErrKey and never contain the
// key.
func loadKey(path string) (privateKey, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	return key, err
}

// readKey reads a key file. Errors are those of loadKey. If there is no file, the error also wraps
// fs.ErrNotExist.
func readKey(path string) (privateKey, error) {
	info, err := os.Lstat(path)
	switch {
	case err != nil:
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	case !info.Mode().IsRegular(): // a FIFO would block
		return privateKey{}, fmt.Errorf("%w: %s is not a regular file", ErrKey, path)
	case info.Mode().Perm()&^keyMode != 0:
		return privateKey{}, fmt.Errorf("%w: %s has mode %04o, so others may have read it: delete it for a new key",
			ErrKey, path, info.Mode().Perm())
	case !trusted(info):
		return privateKey{}, fmt.Errorf("%w: %s belongs to another user, who may have read it: delete it for a new key",
			ErrKey, path)
	case info.Size() > maxKeyFile:
		return privateKey{}, fmt.Errorf("%w: %s has %d bytes, and does not hold a key", ErrKey, path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := wgtypes.ParseKey(strings.TrimSpace(string(text)))
	if err != nil || key == (wgtypes.Key{}) {
		return privateKey{}, fmt.Errorf("%w: %s: invalid key: want 32 bytes in base64", ErrKey, path)
	}
	return privateKey{key, info.ModTime()}, nil
}

// makeKey replaces a key file by one with a new key. After an error, the file may have the old key
// or the new one.
func makeKey(path string) (privateKey, error) {
	key, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	if err := writeKey(path, key.String()+"\n"); err != nil {
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	return privateKey{key, info.ModTime()}, nil
}

// writeKey replaces the file atomically, and returns once it is on the disk.
func writeKey(path, text string) error {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, directoryMode); err != nil {
		return err
	}
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a process that was killed
		return err
	}
	file, err := os.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyMode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return syncDirectory(directory)
}

// syncDirectory returns once the entries of a directory are on the disk.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
