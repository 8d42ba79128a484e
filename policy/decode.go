// SPDX-License-Identifier: Apache-2.0

package policy

import "reflect"

// Decode decodes one resource from a JSON object with a "kind" member. Members have the names of
// the field tags, in the same case. A staged policy has the kind "StagedPolicy", and no member
// "staged". A Block has no member "name".
//
// These are errors: unknown members and kinds, duplicate members, null, text after the object, and
// values of another type. Values that a field cannot have, such as port 0 or an address with a
// zone, are errors, too. Decode returns all errors in one *DecodeError, and no resource. But it
// returns a resource and no error in two cases:
//
//   - All errors are in rules of a policy. Then Decode closes these rules, and returns the policy.
//     A closed Allow or Log rule matches nothing, and any other closed rule denies everything (see
//     Rule.Close). Policy.Doubts returns the errors.
//   - The errors are in a profile that has the name of a built-in profile. Then Decode returns a
//     profile with that name. Update.Admit replaces this profile by one that denies everything.
//
// An empty list or map means the same as a missing one. The result is canonical (see Canonical). It
// is not validated: Validate and Update.Admit find missing and contradictory fields.
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
		if _, builtin := BuiltinProfile(root.key().Name); builtin && root.key().Kind == KindProfile {
			return invalidBuiltin(root.key().Name, d.problems), nil
		}
		return nil, &DecodeError{Key: root.key(), Problems: d.problems}
	}
	makeCanonical(r)
	return r, nil
}

// invalidBuiltin returns a profile for which Update.Admit returns an error and a profile that
// denies everything. If Decode returned an error, the profile would be absent. Then the built-in
// profile of the same name would apply, and allow everything.
func invalidBuiltin(name string, problems []Problem) *Profile {
	deny := func() []Rule { return []Rule{{Action: Deny, Doubts: problems[:min(len(problems), maxDoubts)]}} }
	return &Profile{Name: name, Ingress: deny(), Egress: deny()}
}

// key returns the key of an object for the error message. It ignores members with duplicates or in
// another case. Parts that the text lacks are empty, and the whole key is empty if the text is not
// JSON.
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
			d.add(path, "use the kind Policy or StagedPolicy instead of this field")
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
