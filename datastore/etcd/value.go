// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/policy"
)

// Schema is the version of the layout and of every value that this package writes. The package does
// not read newer versions.
const Schema = 1

// objectHead is the beginning of the value of an object.
const objectHead = `{"schema":1,`

// object is the value of a resource: {"schema":1,"owner":"shop","resource":{...}}.
type object struct {
	owner    string
	resource policy.Resource
}

func encodeObject(o object) ([]byte, error) {
	body, err := policy.Encode(o.resource)
	if err != nil {
		return nil, err
	}
	b := []byte(objectHead)
	if o.owner != "" {
		b = fmt.Appendf(b, `"owner":%q,`, o.owner) // a segment of a key, in which no character needs an escape
	}
	b = append(b, `"resource":`...)
	return append(append(b, body...), '}'), nil
}

// decodeObject decodes the value of an object. The caller wraps the error in a ValueError.
//
// With a *policy.DoubtError, the object can be enforced but not overwritten: rules that this
// version cannot read would be lost. A policy that was written with closed rules returns no such
// error.
func decodeObject(key policy.Key, value []byte) (object, error) {
	var o object
	var err error
	owner, body, ok := cutObject(value)
	if ok {
		o.owner = owner
		o.resource, err = policy.Decode(body)
	}
	if o.resource == nil || err != nil { // find the cause, if there is one
		if o, err = decodeMembers(value); err != nil {
			return object{}, err
		}
	}
	if have := o.resource.Key(); have != key {
		return object{}, fmt.Errorf("the value is the object %s", have)
	}
	if p, isPolicy := o.resource.(*policy.Policy); isPolicy {
		if doubt := p.Doubts(); doubt != nil && !isEncoded(p, body) {
			return o, fmt.Errorf("%w (or it is %w)", doubt, ErrNewer)
		}
	}
	return o, nil
}

// isEncoded reports whether a body is equal to the encoding of the policy by this version.
func isEncoded(p *policy.Policy, body []byte) bool {
	encoded, err := policy.Encode(p)
	return err == nil && bytes.Equal(encoded, body)
}

func decodeMembers(value []byte) (object, error) {
	m, err := members(value, "owner", "resource")
	if err != nil {
		return object{}, err
	}
	var o object
	if owner, ok := m["owner"]; ok {
		if err := json.Unmarshal(owner, &o.owner); err != nil || o.owner == "" {
			return object{}, errors.New("owner: want a string")
		}
	}
	if o.resource, err = policy.Decode(m["resource"]); err != nil {
		return object{}, fmt.Errorf("%w (or it is %w)", err, ErrNewer)
	}
	return o, nil
}

// cutObject splits a value that has exactly the form that encodeObject writes. It is fast because
// it does not parse the body. If the body is one JSON object, the value is valid; the caller
// decodes the body.
func cutObject(value []byte) (owner string, body []byte, ok bool) {
	rest, ok := bytes.CutPrefix(value, []byte(objectHead))
	if !ok {
		return "", nil, false
	}
	if after, owned := bytes.CutPrefix(rest, []byte(`"owner":"`)); owned {
		name, after, _ := bytes.Cut(after, []byte(`",`))
		if checkSegment("owner", string(name)) != nil {
			return "", nil, false
		}
		owner, rest = string(name), after
	}
	if body, ok = bytes.CutPrefix(rest, []byte(`"resource":`)); !ok {
		return "", nil, false
	}
	body, ok = bytes.CutSuffix(body, []byte("}"))
	return owner, body, ok
}

// encodeValue encodes any other value: a struct, with the schema version before its members.
func encodeValue(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("etcd: encode: %w", err)
	}
	head := fmt.Appendf(nil, `{"schema":%d`, Schema)
	if len(body) > 2 {
		head = append(head, ',')
	}
	return append(head, body[1:]...), nil
}

// decodeValue decodes a value of encodeValue into a struct with the named members.
func decodeValue(value []byte, into any, names ...string) error {
	m, err := members(value, names...)
	if err != nil {
		return err
	}
	delete(m, "schema")
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}

// members splits a JSON object. It first returns ErrNewer for a newer schema, and then for
// unknown members. It also rejects duplicate members.
func members(value []byte, names ...string) (map[string]json.RawMessage, error) {
	if !json.Valid(value) {
		return nil, errors.New("not JSON")
	}
	dec := json.NewDecoder(bytes.NewReader(value))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	m := make(map[string]json.RawMessage, 1+len(names))
	var twice error
	for dec.More() {
		tok, _ := dec.Token() // the text is valid JSON
		name, _ := tok.(string)
		var v json.RawMessage
		_ = dec.Decode(&v)
		if _, ok := m[name]; ok && twice == nil {
			twice = fmt.Errorf("member %q is given twice", name)
		}
		m[name] = v
	}
	if twice != nil {
		return nil, twice
	}
	version, err := strconv.ParseUint(string(m["schema"]), 10, 31)
	switch {
	case err != nil || version == 0:
		return nil, errors.New("schema: want a version number")
	case version > Schema:
		return nil, fmt.Errorf("%w: schema %d, this version supports %d", ErrNewer, version, Schema)
	}
	for name := range m {
		if name != "schema" && !slices.Contains(names, name) {
			return nil, fmt.Errorf("%w: unknown member %q", ErrNewer, name)
		}
	}
	return m, nil
}
