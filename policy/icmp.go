// SPDX-License-Identifier: Apache-2.0

package policy

import "strconv"

// ICMP is a type, or a type and code, of ICMP or ICMPv6.
type ICMP struct {
	// Type, 0 to 254. Required: nil is an error, and does not mean type 0 (echo reply).
	Type *int `json:"type,omitempty"`
	// Code, 0 to 255. Nil means every code of the type.
	Code *int `json:"code,omitempty"`
}

func (v *validator) icmp(field string, i *ICMP, p Protocol) {
	if i == nil {
		return
	}
	if p != ProtocolICMP && p != ProtocolICMPv6 {
		v.add(field, "needs protocol ICMP or ICMPv6")
	}
	switch {
	case i.Type == nil:
		v.add(field+".type", "required")
	case *i.Type < 0 || *i.Type > 254:
		v.add(field+".type", "want 0 to 254, not %d", *i.Type)
	}
	if i.Code != nil && (*i.Code < 0 || *i.Code > 255) {
		v.add(field+".code", "want 0 to 255, not %d", *i.Code)
	}
}

// Equal reports whether i and o have the same type and code. Nil equals only nil.
func (i *ICMP) Equal(o *ICMP) bool {
	if i == nil || o == nil {
		return i == o
	}
	return equalPointers(i.Type, o.Type) && equalPointers(i.Code, o.Code)
}

// text returns the prefix, type and code, as in "type 3 code 4", or "" for nil.
func (i *ICMP) text(prefix string) string {
	if i == nil {
		return ""
	}
	s := prefix + "type any"
	if i.Type != nil {
		s = prefix + "type " + strconv.Itoa(*i.Type)
	}
	if i.Code != nil {
		s += " code " + strconv.Itoa(*i.Code)
	}
	return s
}

// values calls do for the type and for the code.
func (i *ICMP) values(do func(field string, first, last uint64)) {
	if i == nil {
		return
	}
	for _, v := range [...]struct {
		field string
		value *int
	}{{"ICMPType", i.Type}, {"ICMPCode", i.Code}} {
		if v.value != nil {
			do(v.field, uint64(*v.value), uint64(*v.value))
		}
	}
}

func (d *digest) icmp(i *ICMP) {
	if d.present(i != nil) {
		d.integer(i.Type)
		d.integer(i.Code)
	}
}
