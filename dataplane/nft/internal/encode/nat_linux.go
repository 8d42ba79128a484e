// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"encoding/binary"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// natRegisters has the registers with the values of a translation; zero means none.
type natRegisters struct{ addr, port, portLast uint32 }

func (e *ruleEncoder) nat(s ruleset.NAT) {
	at := e.natValues(s)
	var flags uint32 // the kernel sets these flags, and lists them
	if at.addr != 0 {
		flags |= unix.NF_NAT_RANGE_MAP_IPS
	}
	if at.port != 0 {
		flags |= unix.NF_NAT_RANGE_PROTO_SPECIFIED
	}
	x := &e.exprs
	optional := func(typ uint16, v uint32) {
		if v != 0 {
			x.Uint32(typ, v)
		}
	}
	switch s.Kind {
	case ruleset.Masquerade:
		m := x.begin("masq")
		optional(unix.NFTA_MASQ_FLAGS, flags)
		optional(unix.NFTA_MASQ_REG_PROTO_MIN, at.port)
		optional(unix.NFTA_MASQ_REG_PROTO_MAX, at.portLast)
		x.end(m)
	case ruleset.Redirect:
		m := x.begin("redir")
		optional(unix.NFTA_REDIR_REG_PROTO_MIN, at.port)
		optional(unix.NFTA_REDIR_REG_PROTO_MAX, at.portLast)
		optional(unix.NFTA_REDIR_FLAGS, flags)
		x.end(m)
	case ruleset.SNAT, ruleset.DNAT:
		typ := uint32(unix.NFT_NAT_SNAT)
		if s.Kind == ruleset.DNAT {
			typ = unix.NFT_NAT_DNAT
		}
		family := s.Family
		if e.enc.family != ruleset.FamilyINet {
			family = e.enc.family
		}
		m := x.begin("nat")
		x.Uint32(unix.NFTA_NAT_TYPE, typ)
		x.Uint32(unix.NFTA_NAT_FAMILY, uint32(family.Number()))
		optional(unix.NFTA_NAT_REG_ADDR_MIN, at.addr)
		optional(unix.NFTA_NAT_REG_PROTO_MIN, at.port)
		optional(unix.NFTA_NAT_REG_PROTO_MAX, at.portLast)
		optional(unix.NFTA_NAT_FLAGS, flags)
		x.end(m)
	default:
		e.fail("unknown kind of translation %d", s.Kind)
	}
}

// natValues puts the addresses and ports of a translation into registers.
func (e *ruleEncoder) natValues(s ruleset.NAT) (at natRegisters) {
	if s.Map != "" {
		set := e.lookup(s.Fields, s.Map, firstRegister, false)
		if set == nil || len(set.Data) == 0 {
			return at
		}
		at.addr = firstRegister
		if len(set.Data) > 1 {
			at.port = register(wordsOf(set.Data[0].Size()))
		}
		return at
	}
	put := func(v []byte, index int) uint32 {
		to := register(4 * index)
		e.exprs.value(v, to)
		return to
	}
	if len(s.Addr) > 0 {
		at.addr = put(s.Addr, 0)
	}
	if s.Port != 0 {
		at.port = put(binary.BigEndian.AppendUint16(nil, s.Port), 2)
	}
	if s.PortLast != 0 {
		at.portLast = put(binary.BigEndian.AppendUint16(nil, s.PortLast), 3)
	}
	return at
}
