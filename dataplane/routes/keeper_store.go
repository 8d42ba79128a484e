// SPDX-License-Identifier: Apache-2.0

package routes

import (
	"maps"
	"slices"
)

// settingStore are the wanted sysctls. What the kernel has is read when it matters.
type settingStore struct {
	wanted map[string]Setting // by path
	stale  map[string]bool
}

func newSettingStore() *settingStore {
	return &settingStore{wanted: map[string]Setting{}, stale: map[string]bool{}}
}

func (s *settingStore) set(o Setting) {
	if s.wanted[o.Path] != o {
		s.wanted[o.Path] = o
		s.stale[o.Path] = true
	}
}

func (s *settingStore) unset(o Setting) {
	delete(s.wanted, o.Path)
	delete(s.stale, o.Path)
}

func (s *settingStore) touchAll() {
	for path := range s.wanted {
		s.stale[path] = true
	}
}

// flush takes in what happened to interfaces: one that is another has settings of its own.
func (s *settingStore) flush(f *flush) {
	for path, o := range s.wanted {
		if o.Interface != "" && f.names[o.Interface] {
			s.stale[path] = true
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
	wanted map[string]VXLAN
	stale  bool
}

func newDeviceStore() *deviceStore { return &deviceStore{wanted: map[string]VXLAN{}} }

func (s *deviceStore) set(v VXLAN) {
	if old, ok := s.wanted[v.Name]; !ok || !old.Equal(&v) {
		s.wanted[v.Name] = v
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
