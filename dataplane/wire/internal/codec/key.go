// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy"
)

// EncodeKey returns the message of a key.
func EncodeKey(k policy.Key) *wirepb.Key {
	m := &wirepb.Key{}
	fillKey(m, k)
	return m
}

// DecodeKey returns the key of a message. It returns the zero Key for nil.
func DecodeKey(m *wirepb.Key) policy.Key {
	return policy.Key{Kind: policy.Kind(m.GetKind()), Namespace: m.GetNamespace(), Name: m.GetName()}
}

// encodeKeys encodes a list. It makes one allocation for all messages.
func encodeKeys(keys []policy.Key) []*wirepb.Key {
	if len(keys) == 0 {
		return nil
	}
	messages, out := make([]wirepb.Key, len(keys)), make([]*wirepb.Key, len(keys))
	for i, k := range keys {
		fillKey(&messages[i], k)
		out[i] = &messages[i]
	}
	return out
}

func fillKey(m *wirepb.Key, k policy.Key) {
	m.Kind, m.Namespace, m.Name = string(k.Kind), k.Namespace, k.Name
}

// decodeKey decodes the key of an object. Its kind and name must not be empty.
func decodeKey(c *cursor, m *wirepb.Key, out *policy.Key) {
	*out = DecodeKey(m)
	switch {
	case out.Kind == "":
		c.failIn("kind", "empty")
	case out.Name == "":
		c.failIn("name", "empty")
	}
}

// keyField decodes the key in a field.
func keyField(c *cursor, name string, m *wirepb.Key) (k policy.Key) {
	c.enter(name)
	decodeKey(c, m, &k)
	c.leave()
	return k
}
