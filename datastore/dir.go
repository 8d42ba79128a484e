// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/policy"
)

var _ Source = (*Dir)(nil)

// DirConfig says which folder to read, and how.
//
// A DirConfig is a plain value and is not changed by the Dir.
type DirConfig struct {
	// Path of the directory. Subdirectories are not entered. Required.
	Path string
	// Extensions of the files to read, each with its dot; other files are ignored, and so are names
	// that begin with a dot. Default: ".json".
	Extensions []string
	// Decode reads the content of one file, given without its directory: the resources in it, and
	// what is wrong with the others. It must not keep data. Default: policy.Decode, one resource a
	// file.
	Decode func(file string, data []byte) ([]policy.Resource, []error)
	// Rejected is told, from the goroutine of Run, of each thing in a file that cannot be used,
	// every time the file is read; the file's name comes without its directory, and is "." where
	// the directory itself has gone. Nil: nobody is told.
	Rejected func(file string, err error)
	// Unreadable, if set, is called when it changes why the directory cannot be read, at the start
	// too, and with nil once the directory is read again. It is called from the goroutine of Run.
	Unreadable func(cause error)
	// Wait makes Run wait for a directory that cannot be read at the start. By default Run then
	// returns the cause.
	Wait bool
	// MaxSize is the size in bytes over which a file is rejected. Default: 64 MiB.
	MaxSize int64
	// Recheck is how often to look whether Path still leads to the directory that is being watched:
	// it may have been removed, or be a symbolic link that was switched, of which the kernel tells
	// nothing. Default: 1 s.
	Recheck time.Duration
}

func (c DirConfig) withDefaults() DirConfig {
	c.Extensions = slices.Clone(c.Extensions)
	if len(c.Extensions) == 0 {
		c.Extensions = []string{".json"}
	}
	if c.Decode == nil {
		c.Decode = decodeJSON
	}
	if c.Rejected == nil {
		c.Rejected = func(string, error) {}
	}
	if c.Unreadable == nil {
		c.Unreadable = func(error) {}
	}
	if c.MaxSize == 0 {
		c.MaxSize = 64 << 20
	}
	if c.Recheck == 0 {
		c.Recheck = time.Second
	}
	return c
}

func (c DirConfig) validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("datastore: Path is required"))
	}
	for _, ext := range c.Extensions {
		if len(ext) < 2 || ext[0] != '.' {
			errs = append(errs, fmt.Errorf("datastore: extension %q must begin with a dot", ext))
		}
	}
	if c.MaxSize < 0 {
		errs = append(errs, errors.New("datastore: MaxSize is negative"))
	}
	if c.Recheck < 0 {
		errs = append(errs, errors.New("datastore: Recheck is negative"))
	}
	return errors.Join(errs...)
}

func decodeJSON(_ string, data []byte) ([]policy.Resource, []error) {
	r, err := policy.Decode(data)
	if err != nil {
		return nil, []error{err}
	}
	if p, ok := r.(*policy.Policy); ok {
		if doubt := p.Doubts(); doubt != nil {
			return []policy.Resource{r}, []error{doubt}
		}
	}
	return []policy.Resource{r}, nil
}

// Dir is a folder of files with desired state. A file counts as soon as whoever wrote it closes it,
// or moves or links it into place; an atomic rename is the best way to change one. Changes behind a
// symbolic link are not noticed, except where the folder is laid out like a mounted Kubernetes
// ConfigMap, whose "..data" link is switched.
//
// See the package documentation for what happens to broken files and vanished directories.
// Resources are decoded, not validated: that is for the receiver. Workload endpoints, of which
// there may be very many, are kept in a packed form, and what is there at the start is told in
// pieces. Later what changed at once is told at once.
//
// It is safe for concurrent use, and may run any number of times at once.
type Dir struct {
	config DirConfig
}

// NewDir returns a Dir. It fails where the configuration is wrong; the directory is
// not looked at before Run.
func NewDir(cfg DirConfig) (*Dir, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Dir{config: cfg.withDefaults()}, nil
}

// wants reports whether a file of this name is to be read.
func (c DirConfig) wants(file string) bool {
	return !strings.HasPrefix(file, ".") &&
		slices.ContainsFunc(c.Extensions, func(ext string) bool { return strings.HasSuffix(file, ext) })
}
