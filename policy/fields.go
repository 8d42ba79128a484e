// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"iter"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
)

// Decoding JSON, copying, comparison and canonical values depend only on the types of fields. The
// functions in this file do them by reflection for all resources, so that a new field needs no code
// for them.

// fields iterates over the fields of a struct and of the structs that it embeds, by their names in
// JSON.
func fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if f.Anonymous {
				for name, inner := range fields(v.Field(i)) {
					if !yield(name, inner) {
						return
					}
				}
				continue
			}
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name != "-" && !yield(name, v.Field(i)) {
				return
			}
		}
	}
}

// jsonReader is a type with a decoding function of its own.
type jsonReader interface {
	read(d *decoder, path string, n *jsonNode)
}

// read decodes a JSON value at a path into v.
func (d *decoder) read(path string, n *jsonNode, v reflect.Value) {
	switch to := v.Addr().Interface().(type) {
	case jsonReader:
		to.read(d, path, n)
	case *netip.Prefix:
		d.net(path, n, to)
	case *[]netip.Prefix:
		d.interfaceAddresses(path, n, to)
	case *netip.Addr:
		d.address(path, n, to)
	case **float64:
		d.order(path, n, to)
	case **int:
		*to = new(int)
		d.integer(path, n, *to)
	case *int:
		d.ipVersion(path, n, to)
	case *uint16:
		d.portNumber(path, n, to)
	case *map[string]string:
		d.texts(path, n, to)
	case *[]Rule:
		d.rules(path, n, to)
	case *[]PerformanceHint:
		d.hints(path, n, to)
	case *[]Failsafe: // an empty list means no ports; it must not become nil, which means the default
		*to = []Failsafe{}
		d.readByKind(path, n, v)
	default:
		d.readByKind(path, n, v)
	}
}

// readByKind decodes a value by the reflect.Kind of its type.
func (d *decoder) readByKind(path string, n *jsonNode, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if d.want(path, n, jsonString) {
			v.SetString(n.text)
		}
	case reflect.Bool:
		if d.want(path, n, jsonBool) {
			v.SetBool(n.truth)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.read(path, n, v.Elem())
	case reflect.Slice:
		if !d.want(path, n, jsonList) {
			return
		}
		if len(n.items) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
		}
		for i, item := range n.items {
			d.read(index(path, i), item, v.Index(i))
		}
	default:
		d.object(path, n, v, nil)
	}
}

// object decodes a struct. readers decode members that are not fields.
func (d *decoder) object(path string, n *jsonNode, v reflect.Value, readers memberReaders) {
	if !d.want(path, n, jsonObject) {
		return
	}
	for _, m := range n.members {
		at := join(path, m.name)
		if read, ok := readers[m.name]; ok {
			read(at)
		} else if field := fieldOf(v, m.name); field.IsValid() {
			d.read(at, m.value, field)
		} else {
			d.unknown(at, m.name, v, readers)
		}
	}
}

// fieldOf returns the field for a member in JSON, or the zero Value.
func fieldOf(v reflect.Value, member string) reflect.Value {
	for name, field := range fields(v) {
		if name == member {
			return field
		}
	}
	return reflect.Value{}
}

// deepCopy replaces the memory that v, a shallow copy, shares with the original.
func deepCopy(v reflect.Value) {
	switch to := v.Addr().Interface().(type) {
	case *netip.Addr, *netip.Prefix:
		return
	case *map[string]string:
		*to = maps.Clone(*to)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			deepCopy(c.Elem())
			v.Set(c)
		}
	case reflect.Slice:
		if !v.IsNil() {
			c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(c, v)
			v.Set(c)
		}
		for i := range v.Len() {
			deepCopy(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			deepCopy(v.Field(i))
		}
	}
}

// equal reports whether a and b, which have the same type, have equal values. An empty list or map
// equals a nil one. A nil pointer equals only nil.
func equal(a, b reflect.Value) bool {
	y := b.Addr().Interface() // b.Interface() would allocate memory
	switch x := a.Addr().Interface().(type) {
	case *netip.Addr:
		return *x == *y.(*netip.Addr)
	case *netip.Prefix:
		return *x == *y.(*netip.Prefix)
	case *Nets: // often long, and many times faster than by reflection
		return slices.Equal(*x, *y.(*Nets))
	case *map[string]string:
		return maps.Equal(*x, *y.(*map[string]string))
	}
	switch a.Kind() {
	case reflect.Pointer:
		return a.IsNil() == b.IsNil() && (a.IsNil() || equal(a.Elem(), b.Elem()))
	case reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			if !equal(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return a.Len() == b.Len()
	case reflect.Struct:
		for i := range a.NumField() {
			if !equal(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Equal(b)
}

// makeCanonical makes a resource canonical, in place.
func makeCanonical(r Resource) {
	canonicalize(reflect.ValueOf(r).Elem())
	if r, ok := r.(interface{ canonicalize() }); ok { // for values that depend on more than the type of a field
		r.canonicalize()
	}
}

// canonicalize makes the parts of v canonical, in place.
func canonicalize(v reflect.Value) {
	switch to := v.Addr().Interface().(type) {
	case *netip.Addr:
		*to = unmap(*to)
		return
	case *netip.Prefix:
		*to = canonicalNet(*to)
		return
	case *[]netip.Prefix: // the addresses of a Node keep their host bits
		for i, p := range *to {
			(*to)[i] = unmapNet(p)
		}
		return
	case *Type:
		*to = to.canonical()
		return
	}
	switch v.Kind() {
	case reflect.Slice:
		for i := range v.Len() {
			canonicalize(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			canonicalize(v.Field(i))
		}
	}
}
