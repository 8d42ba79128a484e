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

// keyMode is the mode of a key file, folderMode that of its folder if it is made.
const (
	keyMode    fs.FileMode = 0o600
	folderMode fs.FileMode = 0o700
	// maxKeyFile is more bytes than a key and a line break have.
	maxKeyFile = 64
)

// privateKey is a key and when it was made.
type privateKey struct {
	key  wgtypes.Key
	made time.Time
}

// loadKey reads a key file, or makes it if it does not exist. Errors wrap ErrKey and never hold the key.
func loadKey(path string) (privateKey, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	return key, err
}

// readKey reads a key file. Errors: as of loadKey; one that wraps fs.ErrNotExist.
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
	case info.Size() > maxKeyFile:
		return privateKey{}, fmt.Errorf("%w: %s has %d bytes, and holds no key", ErrKey, path, info.Size())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return privateKey{}, fmt.Errorf("%w: %w", ErrKey, err)
	}
	key, err := wgtypes.ParseKey(strings.TrimSpace(string(text)))
	if err != nil || key == (wgtypes.Key{}) {
		return privateKey{}, fmt.Errorf("%w: %s does not hold a key of 32 bytes in base64", ErrKey, path)
	}
	return privateKey{key, info.ModTime()}, nil
}

// makeKey writes a new key to a file, in place of one that is there. If it fails, that one stays.
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

// writeKey replaces the file in one step, and returns once it is on the disk.
func writeKey(path, text string) error {
	folder := filepath.Dir(path)
	if err := os.MkdirAll(folder, folderMode); err != nil {
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
	return syncFolder(folder)
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
