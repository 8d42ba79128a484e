// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/wayleave/wayleave/policy"
)

var _ Source = (*Dir)(nil)

// DirConfig configures a Dir. The Dir does not change it.
type DirConfig struct {
	// Path of the directory. Subdirectories are not entered. Required.
	Path string
	// Extensions of the files to read, each with its dot; other files are ignored, and so are names
	// that begin with a dot. Default: ".json".
	Extensions []string
	// Decode returns the resources in one file, and an error for each object that it cannot decode.
	// Its first argument is the file's name without the directory. Decode must not keep the slice data
	// after it returns. Default: policy.Decode, one resource in a file.
	Decode func(file string, data []byte) ([]policy.Resource, []error)
	// Rejected receives each error of a file, every time that the Dir reads the file. It is called
	// in the goroutine of Run. Its first argument is the file's name without the directory, or "."
	// for an error of the directory itself. Nil discards errors.
	Rejected func(file string, err error)
	// Unreadable is called with the cause when the directory cannot be read, and again when the
	// cause changes. It is called with nil once the directory has been read. It is called in the
	// goroutine of Run. Optional.
	Unreadable func(cause error)
	// Wait makes Run wait for a directory that cannot be read at the start. By default, Run returns
	// an error in this case.
	Wait bool
	// MaxSize is the size in bytes over which a file is rejected. Default: 64 MiB.
	MaxSize int64
	// Recheck is the time between two checks whether Path still leads to the watched directory. The
	// kernel sends no notification if the directory was removed, or if Path is a symbolic link that
	// was changed. Default: 1 s.
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
	c.MaxSize = cmp.Or(c.MaxSize, 64<<20)
	c.Recheck = cmp.Or(c.Recheck, time.Second)
	return c
}

func (c DirConfig) validate() error {
	var errs []error
	if c.Path == "" {
		errs = append(errs, errors.New("datastore: DirConfig.Path: required"))
	}
	for _, ext := range c.Extensions {
		if len(ext) < 2 || ext[0] != '.' {
			errs = append(errs, fmt.Errorf("datastore: DirConfig.Extensions: %q must begin with a dot", ext))
		}
	}
	if c.MaxSize < 0 {
		errs = append(errs, errors.New("datastore: DirConfig.MaxSize: must not be negative"))
	}
	if c.Recheck < 0 {
		errs = append(errs, errors.New("datastore: DirConfig.Recheck: must not be negative"))
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

// Dir is a source of the objects in the files of a directory. It reads a file when its writer
// closes it, or when the file is moved or linked into the directory. To change a file, write a new
// one and rename it over the old one: that is atomic. If a file is a symbolic link, a Dir does not
// detect changes of the file behind the link. There is one exception: when kubelet updates a
// mounted ConfigMap, kubelet replaces the link "..data", and the Dir detects that.
//
// The package documentation says what a Dir does if it cannot read a file or the directory. A Dir
// decodes resources, but does not validate them: the receiver does. A Dir keeps workload endpoints
// in a compact form (package internal/packed), because there may be very many. At the start, it
// sends the content in several calls of Update. Later, it sends changes that it finds at the same
// time in one call.
//
// A Dir is safe for concurrent use. Run may be called several times at once, once for each
// receiver.
type Dir struct {
	config DirConfig
}

// NewDir returns a Dir, or an error if the configuration is invalid. The directory is not read
// before Run.
func NewDir(cfg DirConfig) (*Dir, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Dir{config: cfg.withDefaults()}, nil
}

// matches reports whether the Dir reads files of this name.
func (c DirConfig) matches(file string) bool {
	return !strings.HasPrefix(file, ".") &&
		slices.ContainsFunc(c.Extensions, func(ext string) bool { return strings.HasSuffix(file, ext) })
}
