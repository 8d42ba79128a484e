// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/fieldwalk"
	"github.com/wayleave/wayleave/policy"
)

// The tests in this file fail if a new field of a kind is missing in Equal, Clone, Encode or
// Decode.

// full returns a resource of every kind in which every field is set.
func full(t testing.TB) []policy.Resource {
	t.Helper()
	var all []policy.Resource
	for _, kind := range policy.Kinds() {
		r := empty(t, kind)
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Staged" { // implied by the kind
				fieldwalk.Fill(v.Field(i), policy.PortRange(80, 90))
			}
		}
		require.Equal(t, kind, r.Key().Kind)
		all = append(all, r)
	}
	return all
}

// empty returns a resource of the kind without content.
func empty(t testing.TB, kind policy.Kind) policy.Resource {
	t.Helper()
	r, err := policy.Decode([]byte(`{"kind":"` + string(kind) + `"}`))
	require.NoError(t, err)
	return r
}

// Kinds has each constant of the type Kind once.
func TestKindsAreComplete(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "resource.go", nil, 0)
	require.NoError(t, err)
	var constants []policy.Kind
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Kind") {
			return true
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.Equal(t, "Kind"+text, spec.Names[0].Name)
			constants = append(constants, policy.Kind(text))
		}
		return true
	})
	require.NotEmpty(t, constants)
	require.ElementsMatch(t, constants, policy.Kinds())

	types := map[reflect.Type]bool{}
	for _, kind := range policy.Kinds() {
		types[reflect.TypeOf(empty(t, kind))] = true
		nothing := reflect.Zero(reflect.TypeOf(empty(t, kind))).Interface().(policy.Resource)
		require.True(t, policy.Equal(nil, nothing), "a nil pointer is not a resource")
		require.Nil(t, policy.Clone(nothing))
		require.Nil(t, policy.Canonical(nothing))
		_, err := policy.Encode(nothing)
		require.Error(t, err)
		require.Error(t, policy.Update{Key: policy.Key{Kind: kind}, Resource: nothing}.Validate())
	}
	require.Len(t, types, len(policy.Kinds())-1, "policies and staged policies have the same type")
}

// Equal is false after a change of any field, and a clone shares no memory with the original.
func TestEqualAndCloneAreComplete(t *testing.T) {
	for _, r := range full(t) {
		before := fmt.Sprintf("%#v", encode(t, r))
		count := len(fieldwalk.Changes(reflect.ValueOf(r).Elem()))
		require.Positive(t, count)
		for i := range count {
			c := policy.Clone(r)
			require.True(t, policy.Equal(r, c))
			require.Equal(t, r, c)
			ch := fieldwalk.Changes(reflect.ValueOf(c).Elem())[i]
			ch.Do()
			require.False(t, policy.Equal(r, c), "%T%s", r, ch.Path)
			require.False(t, policy.Equal(c, r), "%T%s", r, ch.Path)
			require.Equal(t, before, fmt.Sprintf("%#v", encode(t, r)), "the clone shares %T%s", r, ch.Path)
		}
	}
}

// A list does not equal its beginning, an empty list or map equals nil, and a nil pointer equals only
// nil.
func TestEqualOfEmptyParts(t *testing.T) {
	for _, r := range full(t) {
		c := policy.Clone(r)
		emptyParts(reflect.ValueOf(r).Elem(), reflect.ValueOf(c).Elem(), func(want bool) {
			require.Equal(t, want, policy.Equal(r, c), "%+v\n%+v", r, c)
			require.Equal(t, want, policy.Equal(c, r), "%+v\n%+v", r, c)
		})
	}
}

// emptyParts empties the lists, maps and pointers of two equal values, the innermost first.
func emptyParts(a, b reflect.Value, check func(want bool)) {
	switch a.Kind() {
	case reflect.Slice:
		for i := range a.Len() {
			emptyParts(a.Index(i), b.Index(i), check)
		}
		b.SetLen(1)
		check(false)
		a.SetZero()
		b.SetLen(0)
		check(true)
	case reflect.Map:
		a.SetZero()
		b.Set(reflect.MakeMap(b.Type()))
		check(true)
	case reflect.Pointer:
		emptyParts(a.Elem(), b.Elem(), check)
		b.Elem().SetZero()
		a.SetZero()
		check(false)
		b.SetZero()
		check(true)
	case reflect.Struct:
		for i := range a.NumField() {
			if a.Type().Field(i).IsExported() { // those of netip.Addr are not
				emptyParts(a.Field(i), b.Field(i), check)
			}
		}
	}
}

// EntityRule.IsZero considers every field.
func TestIsZeroIsComplete(t *testing.T) {
	require.True(t, policy.EntityRule{Nets: policy.Nets{}, NotPorts: []policy.Port{}}.IsZero())
	for i := range reflect.TypeFor[policy.EntityRule]().NumField() {
		var e policy.EntityRule
		field := reflect.ValueOf(&e).Elem().Field(i)
		fieldwalk.Fill(field)
		require.False(t, e.IsZero(), "%+v", e)
		if field.Kind() == reflect.Pointer {
			field.Elem().SetZero()
			require.False(t, e.IsZero(), "%+v", e)
		}
	}
}

// Decode reads every field that Encode writes, and Encode writes every field.
func TestEncodeAndDecodeAreComplete(t *testing.T) {
	for _, r := range full(t) {
		back, err := policy.Decode(encode(t, r))
		require.NoError(t, err)
		require.Equal(t, r, back)
	}
}

func TestEqualOfOthers(t *testing.T) {
	all := full(t)
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, policy.Equal(a, b))
		}
		require.False(t, policy.Equal(a, nil))
		require.False(t, policy.Equal(nil, a))
	}
	require.True(t, policy.Equal(nil, nil))
	require.Nil(t, policy.Clone(nil))
	require.Nil(t, policy.Canonical(nil))
	require.True(t,
		policy.Equal(&policy.NetworkSet{Nets: policy.Nets{}, Labels: map[string]string{}}, &policy.NetworkSet{}))
}

// The text of a header, and of a match, shows every field.
func TestHeaderStringIsComplete(t *testing.T) {
	shows := func(p interface{ HeaderString() string }) {
		v := reflect.ValueOf(p).Elem()
		require.Empty(t, p.HeaderString())
		for i := range v.NumField() {
			v.SetZero()
			fieldwalk.Fill(v.Field(i))
			require.NotEmpty(t, p.HeaderString(), v.Type().Field(i).Name)
		}
	}
	shows(&policy.Header{})
	shows(&policy.HeaderMatch{})
}
