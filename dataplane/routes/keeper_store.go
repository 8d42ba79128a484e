// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"slices"
	"strings"
)

// settingStore are the wanted sysctls. What the kernel has is read when it matters.
type settingStore struct {
	wanted map[string]Setting         // by path
	of     map[string]map[string]bool // paths by interface, "all" and "default" among them
	stale  map[string]bool
	// right are the paths of settings that were as wanted when last read or written.
	right map[string]bool
}

func newSettingStore() *settingStore {
	return &settingStore{
		wanted: map[string]Setting{}, of: map[string]map[string]bool{}, stale: map[string]bool{},
		right: map[string]bool{},
	}
}

func (s *settingStore) set(o Setting) {
	if s.wanted[o.Path] == o {
		return
	}
	s.unset(o)
	s.wanted[o.Path] = o
	s.stale[o.Path] = true
	for _, name := range o.interfaces() {
		if s.of[name] == nil {
			s.of[name] = map[string]bool{}
		}
		s.of[name][o.Path] = true
	}
}

func (s *settingStore) unset(o Setting) {
	old, ok := s.wanted[o.Path]
	if !ok {
		return
	}
	delete(s.wanted, o.Path)
	delete(s.stale, o.Path)
	delete(s.right, o.Path)
	for _, name := range old.interfaces() {
		if delete(s.of[name], o.Path); len(s.of[name]) == 0 {
			delete(s.of, name)
		}
	}
}

// interfaces returns the names of the interface that the setting belongs to by its path, and of the
// one that needs it.
func (s Setting) interfaces() []string {
	names := []string{s.Interface}
	if parts := strings.Split(s.Path, "/"); len(parts) > 3 && parts[3] != s.Interface { // net/ipv4/conf/NAME/...
		names = append(names, parts[3])
	}
	return names
}

func (s *settingStore) touchAll() {
	for path := range s.wanted {
		s.stale[path] = true
	}
}

// touch has the settings of an interface read again.
func (s *settingStore) touch(name string) {
	for path := range s.of[name] {
		s.stale[path] = true
	}
}

// flush takes in what happened to interfaces: one that is another has settings of its own.
func (s *settingStore) flush(f *flush) {
	for name := range f.names {
		if name == "" {
			continue
		}
		for path := range s.of[name] {
			s.stale[path] = true
			delete(s.right, path)
		}
	}
}

// take returns the stale settings in order. They are stale no more.
func (s *settingStore) take() (list []Setting) {
	for _, path := range slices.Sorted(maps.Keys(s.stale)) {
		list = append(list, s.wanted[path])
	}
	clear(s.stale)
	return list
}

// deviceStore are the wanted devices. What the kernel has of them is in the links.
type deviceStore struct {
	wanted map[string]device
	stale  bool
}

func newDeviceStore() *deviceStore { return &deviceStore{wanted: map[string]device{}} }

func (s *deviceStore) set(d device) {
	if old, ok := s.wanted[d.name()]; !ok || !sameDevice(old, d) {
		s.wanted[d.name()] = d
		s.stale = true
	}
}

func (s *deviceStore) unset(name string) {
	s.stale = s.stale || s.has(name)
	delete(s.wanted, name)
}

func (s *deviceStore) has(name string) bool {
	_, ok := s.wanted[name]
	return ok
}

// names returns the set of the names of the wanted devices.
func (s *deviceStore) names() map[string]struct{} {
	names := map[string]struct{}{}
	for name := range s.wanted {
		names[name] = struct{}{}
	}
	return names
}
