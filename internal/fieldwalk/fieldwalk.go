// SPDX-License-Identifier: Apache-2.0

package fieldwalk

import (
	"net/netip"
	"reflect"
	"strconv"
)

// Fill sets every part of v to a nonzero value. If a part has the type of a sample, it gets the
// value of the sample.
func Fill(v reflect.Value, samples ...any) {
	for _, s := range append(samples, netip.MustParsePrefix("10.1.0.0/16"), netip.MustParseAddr("10.1.0.1")) {
		if reflect.TypeOf(s) == v.Type() {
			v.Set(reflect.ValueOf(s))
			return
		}
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
		Fill(v.Elem(), samples...)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		Fill(v.Index(0), samples...)
		Fill(v.Index(1), samples...)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"some": "thing"}))
	case reflect.Struct:
		for i := range v.NumField() {
			Fill(v.Field(i), samples...)
		}
	default:
		panic("fieldwalk: fill " + v.Kind().String())
	}
}

// Change is a change of one part of a value.
type Change struct {
	// Path is the path of the part, such as ".Source.Nets[0]". It ends with " emptied" if the part
	// becomes zero.
	Path string
	// Do makes the change.
	Do func()
}

// Changes returns a change for each part of v. Fill must have filled v. Make only one of the
// changes, because it may replace memory to which the others refer. For another change, fill a new
// value, and call Changes again.
func Changes(v reflect.Value) []Change { return changes("", v) }

func changes(path string, v reflect.Value) []Change {
	one := func(do func()) []Change { return []Change{{path, do}} }
	empty := Change{path + " emptied", v.SetZero}
	switch p := v.Addr().Interface().(type) {
	case *netip.Prefix:
		return one(func() { *p = netip.MustParsePrefix("10.2.0.0/16") })
	case *netip.Addr:
		return one(func() { *p = netip.MustParseAddr("10.1.0.2") })
	}
	switch v.Kind() {
	case reflect.String:
		return one(func() { v.SetString("other") })
	case reflect.Bool:
		return one(func() { v.SetBool(!v.Bool()) })
	case reflect.Int:
		return one(func() { v.SetInt(v.Int() + 1) })
	case reflect.Uint8, reflect.Uint16:
		return one(func() { v.SetUint(v.Uint() + 1) })
	case reflect.Float64:
		return one(func() { v.SetFloat(v.Float() + 1) })
	case reflect.Pointer:
		return append(changes(path, v.Elem()), empty)
	case reflect.Slice:
		var all []Change
		for i := range v.Len() {
			all = append(all, changes(path+"["+strconv.Itoa(i)+"]", v.Index(i))...)
		}
		return append(all, empty)
	case reflect.Map:
		set := func() { v.SetMapIndex(reflect.ValueOf("some"), reflect.ValueOf("other")) }
		return append(one(set), empty)
	case reflect.Struct:
		var all []Change
		for i := range v.NumField() {
			all = append(all, changes(path+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
		return all
	}
	panic("fieldwalk: change " + v.Kind().String())
}

// Leaf is a field that has no fields, or that is treated as a whole, such as an address.
type Leaf struct {
	// Path is the path of the field, such as ".Source.Nets".
	Path  string
	Value reflect.Value
}

// Leaves returns the fields of a struct and of the structs in it. It does not look into lists,
// pointers and maps.
func Leaves(v reflect.Value) []Leaf { return leaves("", v) }

func leaves(path string, v reflect.Value) (all []Leaf) {
	for i := range v.NumField() {
		at, f := path+"."+v.Type().Field(i).Name, v.Field(i)
		switch f.Interface().(type) {
		case netip.Addr, netip.Prefix:
			all = append(all, Leaf{at, f})
			continue
		}
		if f.Kind() == reflect.Struct {
			all = append(all, leaves(at, f)...)
		} else {
			all = append(all, Leaf{at, f})
		}
	}
	return all
}
