// SPDX-License-Identifier: Apache-2.0

package fieldwalk

import (
	"reflect"
	"slices"
	"strings"
)

// Sizes counts the entries of all maps and slices that can be reached from v, by the type and name of
// their field, as in "store.slots". It follows pointers, and visits the fields of structs of packages
// whose path begins with the prefix, except those that are named in except.
func Sizes(v any, prefix string, except ...string) map[string]int {
	s := sizes{prefix: prefix, except: except, counts: map[string]int{}, seen: map[target]bool{}}
	s.visit("", reflect.ValueOf(v))
	return s.counts
}

type sizes struct {
	prefix string
	except []string
	counts map[string]int
	seen   map[target]bool
}

// target identifies the value to which a pointer points.
type target struct {
	typ     reflect.Type
	address uintptr
}

// visit counts the entries that can be reached from a value. field is the field that has the value.
func (s *sizes) visit(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		s.visit(field, v.Elem())
	case reflect.Pointer:
		if to := (target{v.Type(), v.Pointer()}); !v.IsNil() && !s.seen[to] {
			s.seen[to] = true
			s.visit(field, v.Elem())
		}
	case reflect.Struct:
		if !strings.HasPrefix(v.Type().PkgPath(), s.prefix) {
			return
		}
		name, _, _ := strings.Cut(v.Type().Name(), "[") // without type parameters
		for i := range v.NumField() {
			if field := name + "." + v.Type().Field(i).Name; !slices.Contains(s.except, field) {
				s.visit(field, v.Field(i))
			}
		}
	case reflect.Map:
		if v.Len() > 0 {
			s.counts[field] += v.Len()
		}
		for entries := v.MapRange(); entries.Next(); {
			s.visit(field, entries.Key())
			s.visit(field, entries.Value())
		}
	case reflect.Slice:
		if v.Len() > 0 {
			s.counts[field] += v.Len()
		}
		for i := range v.Len() {
			s.visit(field, v.Index(i))
		}
	}
}
