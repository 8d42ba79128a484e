// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

const (
	sizeofRuleMsg = 12
	ruleInvert    = 0x2
	noSuppression = 0xffffffff
)

// Rules lists the rules of a family, 4 or 6, that a protocol made.
func (c *Conn) Rules(family int, protocol uint8) ([]Rule, error) {
	header := make([]byte, sizeofRuleMsg)
	header[0] = familyNumber(family)
	return list(c, unix.RTM_GETRULE, header, parseRule, func(r Rule) bool { return r.Protocol == protocol })
}

// AddRule makes a rule. ErrExist: there is the same one, whoever made it.
func (b *Batch) AddRule(r *Rule) { b.rule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r) }

// DeleteRule deletes a rule of its protocol. ErrNotFound: there is none.
func (b *Batch) DeleteRule(r *Rule) { b.rule(unix.RTM_DELRULE, 0, r) }

func (b *Batch) rule(typ, flags uint16, r *Rule) {
	b.begin(typ, flags)
	table := uint8(0)
	if r.Table < 256 {
		table = uint8(r.Table)
	}
	b.buf = append(b.buf, familyNumber(r.Family), bits(r.To), bits(r.From), 0, table, 0, 0, r.Action, 0, 0, 0, 0)
	if r.To.IsValid() {
		b.attrAddr(unix.FRA_DST, r.To.Addr())
	}
	if r.From.IsValid() {
		b.attrAddr(unix.FRA_SRC, r.From.Addr())
	}
	b.attr32(unix.FRA_PRIORITY, r.Priority)
	if r.Table != 0 {
		b.attr32(unix.FRA_TABLE, r.Table)
	}
	b.attr8(unix.FRA_PROTOCOL, r.Protocol)
	b.end()
}

func bits(p netip.Prefix) uint8 {
	if !p.IsValid() {
		return 0
	}
	return uint8(p.Bits())
}

func parseRule(data []byte) (r Rule, err error) {
	if len(data) < sizeofRuleMsg {
		return Rule{}, errMalformed
	}
	r = Rule{Family: 6, Table: uint32(data[4]), Action: data[7]}
	if data[0] == unix.AF_INET {
		r.Family = 4
	}
	r.Extra = data[3] != 0 || binary.NativeEndian.Uint32(data[8:])&ruleInvert != 0
	a := attrs{rest: data[sizeofRuleMsg:]}
	for a.next() {
		switch a.typ {
		case unix.FRA_DST:
			r.To = netip.PrefixFrom(a.addr(), int(data[1]))
		case unix.FRA_SRC:
			r.From = netip.PrefixFrom(a.addr(), int(data[2]))
		case unix.FRA_PRIORITY:
			r.Priority = a.uint32()
		case unix.FRA_TABLE:
			r.Table = a.uint32()
		case unix.FRA_PROTOCOL:
			r.Protocol = a.uint8()
		case unix.FRA_SUPPRESS_PREFIXLEN:
			r.Extra = r.Extra || a.uint32() != noSuppression
		default:
			r.Extra = true
		}
	}
	return r, a.err
}
