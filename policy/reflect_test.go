// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// The tests of this file fail when a field is added to a kind and forgotten in Equal, Clone,
// Encode or Decode.

// full returns a resource of every kind in which every field is set.
func full(t testing.TB) []policy.Resource {
	t.Helper()
	var all []policy.Resource
	for _, kind := range policy.Kinds() {
		r := empty(t, kind)
		v := reflect.ValueOf(r).Elem()
		for i := range v.NumField() {
			if v.Type().Field(i).Name != "Staged" { // the kind says it
				fill(v.Field(i))
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

// Kinds lists the constants of the type Kind that the package has, each once.
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
		require.True(t, policy.Equal(nil, nothing), "a nil pointer is no resource")
		require.Nil(t, policy.Clone(nothing))
		require.Nil(t, policy.Canonical(nothing))
		_, err := policy.Encode(nothing)
		require.Error(t, err)
		require.Error(t, policy.Update{Key: policy.Key{Kind: kind}, Resource: nothing}.Validate())
	}
	require.Len(t, types, len(policy.Kinds())-1, "policies and staged policies are of one type")
}

// fill sets everything below v to a value that is not zero.
func fill(v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *netip.Prefix:
		*p = netip.MustParsePrefix("10.1.0.0/16")
		return
	case *netip.Addr:
		*p = netip.MustParseAddr("10.1.0.1")
		return
	case *policy.Port:
		*p = policy.PortRange(80, 90)
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("some")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(1)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"some": "thing"}))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("fill: " + v.Kind().String())
	}
}

// change is a way to make a value another one.
type change struct {
	path string
	do   func()
}

// changes lists a change for everything below v.
func changes(path string, v reflect.Value) []change {
	change1 := func(do func()) []change { return []change{{path, do}} }
	clear := change{path + " emptied", func() { v.SetZero() }}
	switch p := v.Addr().Interface().(type) {
	case *netip.Prefix:
		return change1(func() { *p = netip.MustParsePrefix("10.2.0.0/16") })
	case *netip.Addr:
		return change1(func() { *p = netip.MustParseAddr("10.1.0.2") })
	}
	switch v.Kind() {
	case reflect.String:
		return change1(func() { v.SetString("other") })
	case reflect.Bool:
		return change1(func() { v.SetBool(!v.Bool()) })
	case reflect.Int:
		return change1(func() { v.SetInt(v.Int() + 1) })
	case reflect.Uint8, reflect.Uint16:
		return change1(func() { v.SetUint(v.Uint() + 1) })
	case reflect.Float64:
		return change1(func() { v.SetFloat(v.Float() + 1) })
	case reflect.Pointer:
		return append(changes(path, v.Elem()), clear)
	case reflect.Slice:
		return append(append(changes(path+"[0]", v.Index(0)), changes(path+"[1]", v.Index(1))...), clear)
	case reflect.Map:
		set := func() { v.SetMapIndex(reflect.ValueOf("some"), reflect.ValueOf("other")) }
		return append(change1(set), clear)
	case reflect.Struct:
		var all []change
		for i := range v.NumField() {
			all = append(all, changes(path+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
		return all
	}
	panic("changes: " + v.Kind().String())
}

// Equal notices a change of every field, and a clone shares nothing with its original.
func TestEqualAndCloneAreComplete(t *testing.T) {
	for _, r := range full(t) {
		before := fmt.Sprintf("%#v", encode(t, r))
		count := len(changes("", reflect.ValueOf(r).Elem()))
		require.Positive(t, count)
		for i := range count {
			c := policy.Clone(r)
			require.True(t, policy.Equal(r, c))
			require.Equal(t, r, c)
			ch := changes("", reflect.ValueOf(c).Elem())[i]
			ch.do()
			require.False(t, policy.Equal(r, c), "%T%s", r, ch.path)
			require.False(t, policy.Equal(c, r), "%T%s", r, ch.path)
			require.Equal(t, before, fmt.Sprintf("%#v", encode(t, r)), "the clone shares %T%s", r, ch.path)
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
	require.True(t, policy.Equal(&policy.NetworkSet{Nets: policy.Nets{}, Labels: map[string]string{}}, &policy.NetworkSet{}))
}
