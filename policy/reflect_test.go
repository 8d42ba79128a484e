// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/policy"
)

// The tests of this file fail when a field is added to a kind and forgotten in Equal, Clone,
// Encode or Decode.

func full() []policy.Resource {
	all := []policy.Resource{&policy.Policy{}, &policy.Tier{}, &policy.Profile{}, &policy.NetworkSet{}, &policy.WorkloadEndpoint{}}
	for _, r := range all {
		fill(reflect.ValueOf(r).Elem())
	}
	return all
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
	for _, r := range full() {
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
	for _, r := range full() {
		back, err := policy.Decode(encode(t, r))
		require.NoError(t, err)
		require.Equal(t, r, back)
	}
}

func TestEqualOfOthers(t *testing.T) {
	all := full()
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, policy.Equal(a, b))
		}
		require.False(t, policy.Equal(a, nil))
		require.False(t, policy.Equal(nil, a))
	}
	require.True(t, policy.Equal(nil, nil))
	require.True(t, policy.Equal(nil, (*policy.Tier)(nil)), "a nil pointer is no resource")
	require.Nil(t, policy.Clone(nil))
	require.Nil(t, policy.Clone((*policy.Policy)(nil)))
	require.Nil(t, policy.Canonical(nil))
	require.True(t, policy.Equal(&policy.NetworkSet{Nets: policy.Nets{}, Labels: map[string]string{}}, &policy.NetworkSet{}))
}
