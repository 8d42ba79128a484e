// SPDX-License-Identifier: Apache-2.0

package policy

import "reflect"

// Decode reads one resource from a JSON object with a "kind" member. Names of members
// are those of the field tags and must be written exactly so. A staged policy is one of
// kind "StagedPolicy"; there is no member "staged". A Block has no member "name".
//
// Unknown members and kinds, members given twice, null, values of another type, text after the
// object and values that a field cannot hold (port 0, an address or prefix with a zone) are errors,
// all of them at once in a *DecodeError. In a rule of a policy they close that rule instead, see
// Rule.Close and Policy.Doubts. A list or map without entries is the same as none. The result is
// canonical (see Canonical) but not validated: Validate and Update.Admit find what is missing or
// does not fit together.
func Decode(data []byte) (Resource, error) {
	root, err := parseJSON(data)
	if err != nil {
		return nil, &DecodeError{Key: root.key(), Problems: []Problem{{Msg: err.Error()}}}
	}
	d := &decoder{}
	r := d.resource(root)
	if len(d.problems) > 0 {
		if p, ok := r.(*Policy); ok && p.Doubts() != nil {
			for _, doubt := range p.Doubts().Problems {
				d.add(doubt.Field, "%s", doubt.Msg)
			}
		}
		return nil, &DecodeError{Key: root.key(), Problems: d.problems}
	}
	makeCanonical(r)
	return r, nil
}

// key returns what can be read of an object's identity, for the error message. It goes by members
// that are written exactly and given once, as others would name another object, and is empty where
// the text is not JSON.
func (n *jsonNode) key() Key {
	id := map[string]string{}
	if n != nil {
		for _, m := range n.members {
			if m.value.kind == jsonString {
				id[m.name] = m.value.text
			}
		}
	}
	k := Key{Kind: Kind(id["kind"]), Namespace: id["namespace"], Name: id["name"]}
	if k.Kind == KindBlock {
		k.Name = id["cidr"]
		if cidr, err := ParseNet(k.Name); err == nil {
			k.Name = cidr.String()
		}
	}
	return k
}

func (d *decoder) resource(n *jsonNode) Resource {
	if !d.want("", n, jsonObject) {
		return nil
	}
	readers := memberReaders{"kind": func(string) {}}
	var kind Kind
	for _, m := range n.members {
		if m.name == "kind" {
			d.read("kind", m.value, reflect.ValueOf(&kind).Elem())
		}
	}
	r := newResource(kind)
	if _, ok := r.(*Policy); ok {
		d.closes = true
		readers["staged"] = func(path string) {
			d.add(path, "the kind says whether a policy is staged: Policy or StagedPolicy")
		}
	}
	switch {
	case r != nil:
		d.object("", n, reflect.ValueOf(r).Elem(), readers)
	case kind == "" && len(d.problems) == 0:
		d.add("kind", "required")
	case kind == "":
	default:
		d.add("kind", "unknown kind %q", clip(string(kind)))
	}
	return r
}
