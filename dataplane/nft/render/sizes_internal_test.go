// SPDX-License-Identifier: Apache-2.0

package render

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FieldSizes counts the entries of all maps and slices that can be reached from v. It counts by the
// type and name of the field, as in "store.slots". It follows pointers. It visits the fields of
// structs whose package path begins with the prefix. It does not visit structs named in except.
func FieldSizes(v any, prefix string, except ...string) map[string]int {
	s := fieldSizes{prefix: prefix, except: except, counts: map[string]int{}, seen: map[pointee]bool{}}
	s.visit("", reflect.ValueOf(v))
	return s.counts
}

type fieldSizes struct {
	prefix string
	except []string
	counts map[string]int
	seen   map[pointee]bool
}

// pointee identifies the value to which a pointer points.
type pointee struct {
	typ     reflect.Type
	address uintptr
}

// visit counts the entries that can be reached from a value. field is the field that has the value.
func (s *fieldSizes) visit(field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface:
		s.visit(field, v.Elem())
	case reflect.Pointer:
		if to := (pointee{v.Type(), v.Pointer()}); !v.IsNil() && !s.seen[to] {
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

type fieldNode[T any] struct {
	next    *fieldNode[T]
	any     any
	entries map[string][]T
	cache   []int
	foreign netip.Prefix
}

// FieldSizes follows pointers, interfaces and type parameters, and counts a value with two pointers
// once.
func TestFieldSizes(t *testing.T) {
	last := &fieldNode[int]{entries: map[string][]int{"a": {1, 2}, "b": nil}, cache: []int{1}}
	first := &fieldNode[int]{next: last, any: last, foreign: netip.MustParsePrefix("10.0.0.0/8")}
	last.next = first
	const prefix = "github.com/wayleave/wayleave/dataplane/nft/render"
	require.Equal(t, map[string]int{"fieldNode.entries": 4}, FieldSizes(first, prefix, "fieldNode.cache"))
	require.Equal(t, map[string]int{"fieldNode.entries": 4, "fieldNode.cache": 1}, FieldSizes(first, prefix))
	require.Empty(t, FieldSizes(first, "net/"))
}
