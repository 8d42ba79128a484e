// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"slices"
)

// RuleIDs returns an ID for each rule of a policy or profile in one direction. owner is the key of
// the policy or profile. An ID has 24 letters and digits. It is a hash of the owner, the direction
// and the fields of the rule, except the fields Metadata and Doubts. To distinguish equal rules,
// the hash also includes the number of equal rules before the rule. When one rule changes, the
// other rules keep their IDs, and their counters continue.
func RuleIDs(owner Key, dir Type, rules []Rule) []string {
	ids := make([]string, len(rules))
	var before map[string]uint64
	if len(rules) > 1 {
		before = make(map[string]uint64, len(rules))
	}
	var d digest
	d.text(string(owner.Kind))
	d.text(owner.Namespace)
	d.text(owner.Name)
	d.text(string(dir.canonical()))
	prefix := len(d.buf)
	for i := range rules {
		d.buf = d.buf[:prefix]
		d.rule(&rules[i])
		content := d.buf[prefix:]
		same := before[string(content)]
		if before != nil {
			before[string(content)]++
		}
		d.number(same)
		sum := sha256.Sum256(d.buf)
		var id [24]byte
		ruleIDEncoding.Encode(id[:], sum[:15])
		ids[i] = string(id[:])
	}
	return ids
}

// FindRule returns the direction and index of the rule with the ID. Use it for the IDs in counters,
// logs and explanations. The result ok is false if the policy has no such rule, for example because
// the rule has changed.
func (p *Policy) FindRule(id string) (dir Type, index int, ok bool) {
	for dir, rules := range map[Type][]Rule{Ingress: p.Ingress, Egress: p.Egress} {
		if index = slices.Index(RuleIDs(p.Key(), dir, rules), id); index >= 0 {
			return dir, index, true
		}
	}
	return "", 0, false
}

var ruleIDEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567")

// digest encodes values for hashing. Different values have different bytes: the length of each text
// and list precedes it, and even zero values are encoded, except in HeaderMatch.
type digest struct{ buf []byte }

func (d *digest) number(n uint64) { d.buf = binary.AppendUvarint(d.buf, n) }

func (d *digest) text(s string) {
	d.number(uint64(len(s)))
	d.buf = append(d.buf, s...)
}

func (d *digest) present(ok bool) bool {
	if ok {
		d.buf = append(d.buf, 1)
	} else {
		d.buf = append(d.buf, 0)
	}
	return ok
}

func (d *digest) integer(n *int) {
	if d.present(n != nil) {
		d.buf = binary.AppendVarint(d.buf, int64(*n))
	}
}

func (d *digest) nets(nets Nets) {
	d.number(uint64(len(nets)))
	for _, p := range nets {
		addr := p.Addr().As16()
		d.buf = append(d.buf, addr[:]...)
		d.buf = append(d.buf, byte(p.Addr().BitLen()), byte(p.Bits()))
	}
}

func (d *digest) ports(ports []Port) {
	d.number(uint64(len(ports)))
	for _, p := range ports {
		d.text(p.Name)
		d.buf = binary.BigEndian.AppendUint16(d.buf, p.First)
		d.buf = binary.BigEndian.AppendUint16(d.buf, p.Last)
	}
}
