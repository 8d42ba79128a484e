// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unique"
)

// decoder turns JSON values into fields and collects what is wrong with them.
type decoder struct{ report }

// reader reads the value found at a path into a field that it knows.
type reader func(path string, n *jsonNode)

// unmarshal reads one value that stands on its own.
func unmarshal[T any](data []byte, to *T, read func(*decoder, *T) reader) error {
	n, err := parseJSON(data)
	if err != nil {
		return fmt.Errorf("policy: decode: %w", err)
	}
	var d decoder
	var v T
	if read(&d, &v)("", n); len(d.problems) > 0 {
		return fmt.Errorf("policy: decode: %s", sumUp(d.problems))
	}
	*to = v
	return nil
}

// memberReaders says, for each member that an object may have, where its value goes.
type memberReaders map[string]reader

func skip(string, *jsonNode) {}

// want reports whether n is of the kind, and adds a problem if not. Null is of no
// kind that a field has: whether it means "none" or "any" would be a guess.
func (d *decoder) want(path string, n *jsonNode, kind jsonKind) bool {
	if n.kind == kind {
		return true
	}
	d.refuse(path, n, string(kind))
	return false
}

// refuse adds a problem: the value is not one of the field's.
func (d *decoder) refuse(path string, n *jsonNode, want string) {
	if n.fault != "" {
		d.add(path, "%s", n.fault)
	} else {
		d.add(path, "want %s, not %s", want, n.kind)
	}
}

func (d *decoder) object(path string, n *jsonNode, f memberReaders) {
	if !d.want(path, n, jsonObject) {
		return
	}
	for _, m := range n.members {
		read, ok := f[m.name]
		if !ok {
			d.unknown(join(path, m.name), m.name, f)
			continue
		}
		read(join(path, m.name), m.value)
	}
}

func (d *decoder) unknown(path, name string, f memberReaders) {
	for known := range f {
		if strings.EqualFold(known, name) {
			d.add(path, "unknown field; it is written %q", known)
			return
		}
	}
	d.add(path, "unknown field")
}

func (d *decoder) struc(f memberReaders) reader {
	return func(path string, n *jsonNode) { d.object(path, n, f) }
}

// optional reads into a new T.
func optional[T any](d *decoder, to **T, read func(*decoder, *T) reader) reader {
	return func(path string, n *jsonNode) {
		*to = new(T)
		read(d, *to)(path, n)
	}
}

// list reads every item with the reader that each makes for it.
func list[L ~[]T, T any](d *decoder, to *L, each func(*decoder, *T) reader) reader {
	return func(path string, n *jsonNode) {
		if !d.want(path, n, jsonList) {
			return
		}
		for i, item := range n.items {
			var v T
			each(d, &v)(index(path, i), item)
			*to = append(*to, v)
		}
	}
}

func text[T ~string](d *decoder, to *T) reader {
	return func(path string, n *jsonNode) {
		if d.want(path, n, jsonString) {
			*to = T(n.text)
		}
	}
}

// texts reads a map of strings, as labels are: most have been seen in other objects, and share
// their memory with these.
func (d *decoder) texts(to *map[string]string) reader {
	return func(path string, n *jsonNode) {
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
}

func (d *decoder) boolean(to *bool) reader {
	return func(path string, n *jsonNode) {
		if d.want(path, n, jsonBool) {
			*to = n.truth
		}
	}
}

func (d *decoder) order(to **float64) reader {
	return func(path string, n *jsonNode) {
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
}

func (d *decoder) integer(to *int) reader {
	return func(path string, n *jsonNode) {
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
}

// ipVersion does not take 0, which in a Rule stands for both versions and in JSON for a mistake.
func (d *decoder) ipVersion(to *int) reader {
	return func(path string, n *jsonNode) {
		d.integer(to)(path, n)
		if v, err := strconv.Atoi(n.text); n.kind == jsonNumber && err == nil && v == 0 {
			d.add(path, "want 4 or 6, not 0")
		}
	}
}

func (d *decoder) portNumber(to *uint16) reader {
	return func(path string, n *jsonNode) {
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
}

func (d *decoder) protocol(to *Protocol) reader { return parsed(d, to, ParseProtocol) }

// port does not give a number to ParsePort, which would take 8e1 for a name.
func (d *decoder) port(to *Port) reader {
	return func(path string, n *jsonNode) {
		if n.kind == jsonNumber {
			d.portNumber(&to.First)(path, n)
			to.Last = to.First
			return
		}
		parsed(d, to, ParsePort)(path, n)
	}
}

// parsed reads a string or number that parse understands.
func parsed[T any](d *decoder, to *T, parse func(string) (T, error)) reader {
	return func(path string, n *jsonNode) {
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
}

func (d *decoder) net(to *netip.Prefix) reader {
	return func(path string, n *jsonNode) {
		if d.want(path, n, jsonString) {
			parsed(d, to, ParseNet)(path, n)
		}
	}
}

func (d *decoder) nets(to *Nets) reader { return list(d, to, (*decoder).net) }

// interfaceAddress reads an address with the length of its subnet, whose host bits stay; a
// bare one is alone in its subnet.
func (d *decoder) interfaceAddress(to *netip.Prefix) reader {
	return func(path string, n *jsonNode) {
		if !d.want(path, n, jsonString) {
			return
		}
		p, ok := parsePrefix(n.text)
		if !ok {
			d.add(path, "%q is no IP address with the length of its subnet, as in \"192.168.0.5/24\"", clip(n.text))
			return
		}
		*to = p
	}
}

func (d *decoder) address(to *netip.Addr) reader {
	return func(path string, n *jsonNode) {
		if !d.want(path, n, jsonString) {
			return
		}
		a, err := netip.ParseAddr(n.text)
		if err != nil {
			d.add(path, "%q is no IP address", clip(n.text))
			return
		}
		if a.Zone() != "" {
			d.add(path, "%q has a zone, which is of one machine alone", clip(n.text))
			return
		}
		*to = a
	}
}
