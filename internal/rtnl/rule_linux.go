// SPDX-License-Identifier: Apache-2.0

package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/internal/netlink"
)

const (
	sizeofRuleMsg = 12
	ruleInvert    = 0x2
	noSuppression = 0xffffffff
	loopbackName  = "lo"
	// fraSourcePortMask is FRA_SPORT_MASK, which package unix lacks. Linux lists it from 6.15 on.
	fraSourcePortMask = 28
	wholePort         = 0xffff
)

// Rules returns the rules of a family, 4 or 6, with the given Rule.Protocol. This number shows
// which program added a rule.
func (c *Conn) Rules(family int, protocol uint8) ([]Rule, error) {
	header := [sizeofRuleMsg]byte{familyNumber(family)}
	c.link.Request(unix.RTM_GETRULE, header[:]...)
	return list(c, parseRule, func(r Rule) bool { return r.Protocol == protocol })
}

// AddRule adds a rule. ErrExist: there is a rule that differs from r at most in its Protocol.
func (b *Batch) AddRule(r *Rule) { b.rule(unix.RTM_NEWRULE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, r) }

// DeleteRule deletes a rule with the same fields as r, including Protocol. ErrNotFound: there is
// none.
func (b *Batch) DeleteRule(r *Rule) { b.rule(unix.RTM_DELRULE, 0, r) }

func (b *Batch) rule(typ, flags uint16, r *Rule) {
	table := uint8(0)
	if r.Table < 256 {
		table = uint8(r.Table)
	}
	b.Message(typ, flags,
		familyNumber(r.Family), bits(r.To), bits(r.From), 0, table, 0, 0, r.Action, 0, 0, 0, 0)
	if r.To.IsValid() {
		b.Addr(unix.FRA_DST, r.To.Addr())
	}
	if r.From.IsValid() {
		b.Addr(unix.FRA_SRC, r.From.Addr())
	}
	b.Native32(unix.FRA_PRIORITY, r.Priority)
	if r.Table != 0 {
		b.Native32(unix.FRA_TABLE, r.Table)
	}
	if r.Goto != 0 {
		b.Native32(unix.FRA_GOTO, r.Goto)
	}
	b.Uint8(unix.FRA_PROTOCOL, r.Protocol)
	if r.Local {
		b.String(unix.FRA_IIFNAME, loopbackName)
	}
	if r.UDPSourcePort != 0 {
		b.Uint8(unix.FRA_IP_PROTO, unix.IPPROTO_UDP)
		b.Native32(unix.FRA_SPORT_RANGE, portRange(r.UDPSourcePort))
	}
}

func bits(p netip.Prefix) uint8 {
	if !p.IsValid() {
		return 0
	}
	return uint8(p.Bits())
}

// portRange returns a struct fib_rule_port_range, of two numbers of 16 bits, with one port.
func portRange(port uint16) uint32 { return uint32(port)<<16 | uint32(port) }

func parseRule(data []byte) (r Rule, err error) {
	var a netlink.Decoder
	header := a.Begin(data, sizeofRuleMsg)
	r = Rule{Family: 6, Table: uint32(header[4]), Action: header[7]}
	if header[0] == unix.AF_INET {
		r.Family = 4
	}
	r.Extra = header[3] != 0 || binary.NativeEndian.Uint32(header[8:])&ruleInvert != 0
	udp := false
	for a.Next() {
		switch a.Type {
		case unix.FRA_DST:
			r.To = netip.PrefixFrom(a.Addr(), int(header[1]))
		case unix.FRA_SRC:
			r.From = netip.PrefixFrom(a.Addr(), int(header[2]))
		case unix.FRA_PRIORITY:
			r.Priority = a.Native32()
		case unix.FRA_TABLE:
			r.Table = a.Native32()
		case unix.FRA_GOTO:
			r.Goto = a.Native32()
		case unix.FRA_PROTOCOL:
			r.Protocol = a.Uint8()
		case unix.FRA_IIFNAME:
			r.Local = unix.ByteSliceToString(a.Value) == loopbackName
			r.Extra = r.Extra || !r.Local
		case unix.FRA_IP_PROTO:
			udp = a.Uint8() == unix.IPPROTO_UDP
			r.Extra = r.Extra || !udp
		case unix.FRA_SPORT_RANGE:
			ports := a.Native32()
			r.UDPSourcePort = uint16(ports)
			r.Extra = r.Extra || ports != portRange(r.UDPSourcePort)
		case fraSourcePortMask:
			r.Extra = r.Extra || a.Uint16() != wholePort
		case unix.FRA_SUPPRESS_PREFIXLEN:
			r.Extra = r.Extra || a.Native32() != noSuppression
		default:
			r.Extra = true
		}
	}
	r.Extra = r.Extra || udp != (r.UDPSourcePort != 0)
	return r, a.Err
}
