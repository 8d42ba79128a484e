// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"
)

// phrase is a sequence of words that names a field.
type phrase struct {
	words []string
	field Field
	// proto is the protocol that the words also demand, as "tcp sport" does; zero if none.
	proto uint8
}

// phrases returns all names of fields by their first word: those that String writes, and others
// that nft knows.
func phrases() map[string][]phrase {
	all := map[string][]phrase{}
	add := func(text string, f Field, proto uint8) {
		words := strings.Fields(strings.NewReplacer("@", "@ ", ",", " , ").Replace(text))
		all[words[0]] = append(all[words[0]], phrase{words, f, proto})
	}
	for _, f := range Fields() {
		if f == Sport || f == Dport {
			for n := range 256 {
				if th := transportKeyword(uint8(n)); th != "" {
					add(fieldText(f, th), f, uint8(n))
				}
			}
		}
		add(f.String(), f, f.Load().Protocol)
	}
	add("meta iifname", IIFName, 0)
	add("meta oifname", OIFName, 0)
	add("fib saddr . iif check", FibSource, 0) // from nft 1.1.2 on
	add("icmpv6 taddr", NDTarget, protoICMPv6) // from nft 1.0.8 on
	return all
}

// valueNamed returns the value for which a word stands.
func (t Type) valueNamed(word string) (Value, bool) {
	if n, ok := listedName(t, word); ok {
		return t.encode(n), true
	}
	for n := range uint32(256) {
		if v := t.encode(n); valueText(t, v) == word {
			return v, true
		}
	}
	return nil, false
}

// encode returns a number as a value of at most four bytes. It is the reverse of number.
func (t Type) encode(n uint32) Value {
	switch t.Size() {
	case 1:
		return Byte(uint8(n))
	case 2:
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	case 4:
		return Uint32(n)
	default:
		return nil
	}
}

// listedName finds a word among those that nft has for values of a type and that String does not
// write.
func listedName(t Type, word string) (uint32, bool) {
	for pair := range strings.SplitSeq(listedNames(t), " ") {
		if name, digits, _ := strings.Cut(pair, "="); name == word {
			n, err := strconv.ParseUint(digits, 0, 32)
			return uint32(n), err == nil
		}
	}
	return 0, false
}

// listedNames returns words that nft has for the values of a type, with their numbers.
func listedNames(t Type) string {
	switch t {
	case TypeProto:
		return "igmp=2 ipv4=4 ipencap=4 egp=8 pup=12 hmp=20 rdp=27 dccp=33 ddp=37 ipv6=41 ipv6-route=43 ipv6-frag=44" +
			" rsvp=46 gre=47 esp=50 ah=51 skip=57 ipv6-icmp=58 ipv6-nonxt=59 ipv6-opts=60 eigrp=88 ospf=89 ospfigp=89" +
			" ipip=94 etherip=97 encap=98 pim=103 comp=108 ipcomp=108 vrrp=112 l2tp=115 isis=124 fc=133" +
			" mobility-header=135 mpls-in-ip=137 manet=138 hip=139 shim6=140 wesp=141 rohc=142"
	case TypeICMP:
		return "echo-reply=0 destination-unreachable=3 source-quench=4 redirect=5 echo-request=8" +
			" router-advertisement=9 router-solicitation=10 time-exceeded=11 parameter-problem=12" +
			" timestamp-request=13 timestamp-reply=14 info-request=15 info-reply=16 address-mask-request=17" +
			" address-mask-reply=18"
	case TypeICMPv6:
		return "destination-unreachable=1 packet-too-big=2 time-exceeded=3 parameter-problem=4 echo-request=128" +
			" echo-reply=129 mld-listener-query=130 mld-listener-report=131 mld-listener-done=132" +
			" mld-listener-reduction=132 nd-router-solicit=133 nd-router-advert=134 nd-neighbor-solicit=135" +
			" nd-neighbor-advert=136 nd-redirect=137 router-renumbering=138 ind-neighbor-solicit=141" +
			" ind-neighbor-advert=142 mld2-listener-report=143"
	case TypeICMPCode:
		return "net-unreachable=0 host-unreachable=1 prot-unreachable=2 port-unreachable=3 frag-needed=4" +
			" net-prohibited=9 host-prohibited=10 admin-prohibited=13"
	case TypeICMPv6Code:
		return "no-route=0 admin-prohibited=1 addr-unreachable=3 port-unreachable=4 policy-fail=5 reject-route=6"
	case TypeDSCP:
		return "cs0=0 df=0 be=0 lephb=1 cs1=8 af11=10 af12=12 af13=14 cs2=16 af21=18 af22=20 af23=22 cs3=24 af31=26" +
			" af32=28 af33=30 cs4=32 af41=34 af42=36 af43=38 cs5=40 va=44 ef=46 cs6=48 cs7=56"
	case TypeEtherType:
		return "ip=0x0800 arp=0x0806 vlan=0x8100 8021q=0x8100 ip6=0x86dd 8021ad=0x88a8"
	case TypeFibAddr:
		return "blackhole=6 unreachable=7 prohibit=8"
	case TypeClassID:
		return "root=0xffffffff"
	default:
		return ""
	}
}

// rejectCode returns the code of RejectICMPX for which a word stands.
func rejectCode(word string) (uint8, bool) {
	for code, name := range [...]string{"no-route", "port-unreachable", "host-unreachable", "admin-prohibited"} {
		if name == word {
			return uint8(code), true
		}
	}
	return 0, false
}

// listedPriority returns the priority for which a name stands.
func listedPriority(family Family, name string) (int, bool) {
	names := map[string]int{
		"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100,
	}
	if family == FamilyBridge {
		names = map[string]int{"dstnat": -300, "filter": -200, "out": 100, "srcnat": 300}
	}
	n, ok := names[name]
	return n, ok
}

// unitLength returns the length of the unit of time with the name, or zero.
func unitLength(name string) time.Duration {
	for _, unit := range durationUnits() {
		if unit.name == name {
			return unit.length
		}
	}
	return 0
}
