// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// savedSysctl is the value of a sysctl before a Keeper set it.
type savedSysctl struct {
	Path string `json:"path"`
	// Before is the former value, Set the value that the Keeper wrote.
	Before string `json:"before"`
	Set    string `json:"set"`
}

// minPrune is the number of lines at which savedSysctls first rewrites the file. Lines of removed
// interfaces, and all but the last line of each path, are left out.
const minPrune = 1000

// savedSysctls keeps the former values of sysctls for Teardown. The file, if there is one, keeps
// them for a later process. Each line is a JSON object, and the last line of a path is valid.
type savedSysctls struct {
	file      string
	namespace int
	values    map[string]savedSysctl // by path; nil until loaded
	lines     int                    // number of lines in the file, or that a file would have
	pruneAt   int                    // number of lines from which prune runs
}

// load reads the file once. It skips an invalid line: a write may have been cut short.
func (f *savedSysctls) load() error {
	if f.values != nil {
		return nil
	}
	f.values, f.lines, f.pruneAt = map[string]savedSysctl{}, 0, minPrune
	if f.file == "" {
		return nil
	}
	data, err := os.ReadFile(f.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range bytes.Lines(data) {
		var v savedSysctl
		if json.Unmarshal(line, &v) == nil && (Setting{Path: v.Path}).validate() == nil {
			f.values[v.Path] = v
		}
		f.lines++
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		f.pruneAt = 0 // rewrite the file, because the next line must not continue this one
	}
	return err
}

// record saves the former values of sysctls that are about to be set.
func (f *savedSysctls) record(list []savedSysctl) error {
	if len(list) == 0 {
		return nil
	}
	if err := f.load(); err != nil {
		return err
	}
	for _, v := range list {
		f.values[v.Path] = v
	}
	if f.lines += len(list); f.lines > f.pruneAt {
		return f.prune()
	}
	return f.write(list, os.O_APPEND)
}

// prune drops the values of removed interfaces, and rewrites the file.
func (f *savedSysctls) prune() error {
	gone := eachSetting(f.namespace, f.settings(), func(s Setting) error {
		_, err := os.Stat(procSys + s.Path)
		return err
	})
	for s := range gone {
		delete(f.values, s.Path)
	}
	f.lines, f.pruneAt = len(f.values), max(minPrune, 2*len(f.values))
	return f.write(f.list(), os.O_TRUNC)
}

// write writes lines to the file. It does not sync the file: sysctls do not survive a restart of
// the machine either.
func (f *savedSysctls) write(list []savedSysctl, how int) error {
	if f.file == "" {
		return nil
	}
	var lines bytes.Buffer
	for _, v := range list {
		if err := json.NewEncoder(&lines).Encode(v); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(f.file), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(f.file, os.O_CREATE|os.O_WRONLY|how, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(lines.Bytes())
	return errors.Join(err, file.Close())
}

// list returns the values in order of their paths. Paths of "all" come first.
func (f *savedSysctls) list() []savedSysctl {
	return slices.SortedFunc(maps.Values(f.values), func(a, b savedSysctl) int {
		order := func(v savedSysctl) string { return strings.Replace(v.Path, "/conf/all/", "/conf//", 1) }
		return strings.Compare(order(a), order(b))
	})
}

// overwritten returns former values of settings that the kernel overwrites. When
// conf/all/forwarding is set, the kernel sets forwarding of every interface to the same value, and
// does so again when all.Before is restored. Interfaces with another value than all.Before need
// theirs back. overwritten skips settings whose former value is saved already.
func (f *savedSysctls) overwritten(all savedSysctl) (list []savedSysctl) {
	conf, ok := strings.CutSuffix(all.Path, "all/forwarding")
	if !ok {
		return nil
	}
	_ = eachSetting(f.namespace, []Setting{{Path: all.Path}}, func(Setting) error { // unreadable values stay unknown
		interfaces, err := os.ReadDir(procSys + conf)
		for _, i := range interfaces {
			path := conf + i.Name() + "/forwarding"
			data, err := os.ReadFile(procSys + path)
			before := strings.TrimSpace(string(data))
			if _, saved := f.values[path]; err == nil && !saved && before != all.Before {
				list = append(list, savedSysctl{Path: path, Before: before, Set: all.Set})
			}
		}
		return err
	})
	return list
}

// settings returns the former values as settings, in order of their paths.
func (f *savedSysctls) settings() (list []Setting) {
	for _, v := range f.list() {
		list = append(list, Setting{Path: v.Path, Value: v.Before})
	}
	return list
}

// restorable returns the former value of each sysctl that still has the value that a Keeper wrote.
func (f *savedSysctls) restorable() ([]Setting, error) {
	if err := f.load(); err != nil {
		return nil, err
	}
	var list []Setting
	_ = eachSetting(f.namespace, f.settings(), func(s Setting) error { // the interface may be gone
		data, err := os.ReadFile(procSys + s.Path)
		if err == nil && strings.TrimSpace(string(data)) == f.values[s.Path].Set {
			list = append(list, s)
		}
		return err
	})
	return list, nil
}

// restore restores the restorable sysctls, and forgets all saved values.
func (f *savedSysctls) restore() error {
	list, err := f.restorable()
	if err != nil {
		return fmt.Errorf("routes: restore sysctls: %w", err)
	}
	var errs []error
	for s, err := range writeSettings(f.namespace, list) {
		if !errors.Is(err, fs.ErrNotExist) { // the interface was removed since
			errs = append(errs, &ObjectError{Op: "restore sysctl", Object: s, Err: err})
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	f.values = nil
	if f.file == "" {
		return nil
	}
	if err := os.Remove(f.file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("routes: restore sysctls: %w", err)
	}
	return nil
}
