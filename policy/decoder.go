// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"unique"
)

// decoder decodes JSON values into fields and collects the problems.
type decoder struct {
	report
	closes bool // rules with errors are closed, as in a policy
}

// unmarshal decodes one value that is not part of a resource.
func unmarshal[T any](data []byte, to *T) error {
	n, err := parseJSON(data)
	if err != nil {
		return fmt.Errorf("policy: decode: %w", err)
	}
	var d decoder
	var v T
	if d.read("", n, reflect.ValueOf(&v).Elem()); len(d.problems) > 0 {
		return fmt.Errorf("policy: decode: %s", sumUp(d.problems))
	}
	*to = v
	return nil
}

// memberReaders has functions for members that are not fields, by name. They get the path of the
// member.
type memberReaders map[string]func(path string)

// want reports whether n is of the kind, and adds a problem if it is not. No field accepts null,
// because null could mean "none" or "any".
func (d *decoder) want(path string, n *jsonNode, kind jsonKind) bool {
	if n.kind == kind {
		return true
	}
	d.refuse(path, n, string(kind))
	return false
}

// refuse adds the problem that the field cannot have the value.
func (d *decoder) refuse(path string, n *jsonNode, want string) {
	if n.fault != "" {
		d.add(path, "%s", n.fault)
	} else {
		d.add(path, "want %s, not %s", want, n.kind)
	}
}

// unknown adds the problem that v has no field for a member.
func (d *decoder) unknown(path, name string, v reflect.Value, readers memberReaders) {
	pool := false
	for known := range fields(v) {
		pool = pool || known == "vxlanMode"
		if strings.EqualFold(known, name) {
			d.add(path, "unknown field: want %q", known)
			return
		}
	}
	for known := range readers {
		if strings.EqualFold(known, name) {
			d.add(path, "unknown field: want %q", known)
			return
		}
	}
	if pool && strings.EqualFold(name, "greMode") {
		d.add(path, "unknown field: GRE is not supported, use vxlanMode or ipipMode")
		return
	}
	d.add(path, "unknown field")
}

// texts decodes a map of strings, such as labels. Its strings are interned, because most occur in
// many objects.
func (d *decoder) texts(path string, n *jsonNode, to *map[string]string) {
	if !d.want(path, n, jsonObject) || len(n.members) == 0 {
		return
	}
	*to = make(map[string]string, len(n.members))
	for _, m := range n.members {
		if d.want(join(path, m.name), m.value, jsonString) {
			(*to)[unique.Make(m.name).Value()] = unique.Make(m.value.text).Value()
		}
	}
}

func (d *decoder) order(path string, n *jsonNode, to **float64) {
	if !d.want(path, n, jsonNumber) {
		return
	}
	v, err := strconv.ParseFloat(n.text, 64)
	if err != nil {
		d.add(path, "%s is out of range", clip(n.text))
		return
	}
	*to = &v
}

func (d *decoder) integer(path string, n *jsonNode, to *int) {
	if !d.want(path, n, jsonNumber) {
		return
	}
	v, err := strconv.Atoi(n.text)
	if err != nil {
		d.add(path, "want a whole number, not %s", clip(n.text))
		return
	}
	*to = v
}

// ipVersion refuses 0, which means both versions in a Rule, but is probably a mistake in JSON.
func (d *decoder) ipVersion(path string, n *jsonNode, to *int) {
	d.integer(path, n, to)
	if v, err := strconv.Atoi(n.text); n.kind == jsonNumber && err == nil && v == 0 {
		d.add(path, "want 4 or 6, not 0")
	}
}

func (d *decoder) portNumber(path string, n *jsonNode, to *uint16) {
	if !d.want(path, n, jsonNumber) {
		return
	}
	v, ok := parseNumber(n.text, 65535)
	if !ok {
		d.add(path, "want a number from 1 to 65535, not %s", clip(n.text))
		return
	}
	*to = uint16(v)
}

// parsed decodes a string or number with the function parse.
func parsed[T any](d *decoder, path string, n *jsonNode, to *T, parse func(string) (T, error)) {
	if n.kind != jsonString && n.kind != jsonNumber {
		d.refuse(path, n, "a string or a number")
		return
	}
	v, err := parse(n.text)
	if err != nil {
		d.add(path, "%s", strings.TrimPrefix(err.Error(), "policy: "))
		return
	}
	*to = v
}

func (d *decoder) net(path string, n *jsonNode, to *netip.Prefix) {
	if d.want(path, n, jsonString) {
		parsed(d, path, n, to, ParseNet)
	}
}

// interfaceAddresses decodes addresses with the lengths of their subnets, and keeps the host bits.
// An address without a length gets the full length.
func (d *decoder) interfaceAddresses(path string, n *jsonNode, to *[]netip.Prefix) {
	if !d.want(path, n, jsonList) {
		return
	}
	for i, item := range n.items {
		at := index(path, i)
		if !d.want(at, item, jsonString) {
			continue
		}
		p, ok := parsePrefix(item.text)
		if !ok {
			d.add(at, "%q is not an IP address with the length of its subnet, as in \"192.168.0.5/24\"",
				clip(item.text))
			continue
		}
		*to = append(*to, p)
	}
}

func (d *decoder) address(path string, n *jsonNode, to *netip.Addr) {
	if !d.want(path, n, jsonString) {
		return
	}
	a, err := netip.ParseAddr(n.text)
	if err != nil {
		d.add(path, "%q is not an IP address", clip(n.text))
		return
	}
	if a.Zone() != "" {
		d.add(path, "%q has a zone: zones are not allowed", clip(n.text))
		return
	}
	*to = a
}
