// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

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
		return nil, &DecodeError{Key: peekKey(data), Problems: []Problem{{Msg: err.Error()}}}
	}
	d := &decoder{}
	r := d.resource(root)
	if len(d.problems) > 0 {
		if p, ok := r.(*Policy); ok && p.Doubts() != nil {
			for _, doubt := range p.Doubts().Problems {
				d.add(doubt.Field, "%s", doubt.Msg)
			}
		}
		return nil, &DecodeError{Key: peekKey(data), Problems: d.problems}
	}
	r.canonicalize()
	return r, nil
}

// peekKey reads what it can of an object's identity, for the error message. It goes by members that
// are written exactly and given once, as others would name another object, and is empty where the
// text is not JSON.
func peekKey(data []byte) Key {
	id := map[string]string{}
	for name, values := range topMembers(data) {
		var s string
		if len(values) == 1 && values[0][0] == '"' && json.Unmarshal(values[0], &s) == nil &&
			!strings.ContainsRune(s, utf8.RuneError) {
			id[name] = s
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

// topMembers returns the members of the object in a text, by name, with the values that each is
// given.
func topMembers(data []byte) map[string][]json.RawMessage {
	members := map[string][]json.RawMessage{}
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); !json.Valid(data) || err != nil || tok != json.Delim('{') {
		return nil
	}
	for dec.More() {
		tok, _ := dec.Token() // the text is known to be well-formed
		name, _ := tok.(string)
		var value json.RawMessage
		_ = dec.Decode(&value)
		members[name] = append(members[name], value)
	}
	return members
}

func (d *decoder) resource(n *jsonNode) Resource {
	if !d.want("", n, jsonObject) {
		return nil
	}
	var kind Kind
	for _, m := range n.members {
		if m.name == "kind" {
			text(d, &kind)("kind", m.value)
		}
	}
	r := newResource(kind)
	switch {
	case r != nil:
		members := r.members(d)
		members["kind"] = skip
		d.object("", n, members)
	case kind == "" && len(d.problems) == 0:
		d.add("kind", "required")
	case kind == "":
	default:
		d.add("kind", "unknown kind %q", clip(string(kind)))
	}
	return r
}
