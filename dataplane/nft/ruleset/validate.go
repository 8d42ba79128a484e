// SPDX-License-Identifier: Apache-2.0

package ruleset

import (
	"errors"
	"fmt"
	"strings"
)

// Limits of the kernel and of nft.
const (
	// maxName is the longest name of a table, chain or set in bytes.
	maxName = 255
	// MaxComment is the longest comment in bytes.
	MaxComment = 128
	// MaxLogPrefix is the longest log prefix in bytes.
	MaxLogPrefix = 127
	// MaxDepth is the number of jumps and gotos that may follow one another (NFT_JUMP_STACK_SIZE
	// less one).
	MaxDepth = 15
	// maxParts limits the fields of a key. nft has no space for the types of more fields.
	maxParts = 5
	// natPriorityFloor is the priority of connection tracking. Chains of type nat must come after
	// it.
	natPriorityFloor = -200
	// MaxKey is the length of the longest key in bytes. Each part of a concatenation is padded to
	// four bytes.
	MaxKey = 64
)

// Validate reports whether the kernel and nft accept the table:
//
//   - names are valid and unique, and referenced objects exist;
//   - keys have the right size, elements are distinct, and ranges are disjoint;
//   - a verdict is the last statement of its rule;
//   - at most MaxDepth jumps follow one another, without a loop.
//
// Some statements and fields (NAT, reject, fib) are valid only in some hooks or after some matches.
// Only the kernel and nft check that.
//
// Errors: a join of one error for each problem.
func (t *Table) Validate() error {
	_, _, err := t.prepare()
	return err
}

// ValidName reports whether nft accepts the string as the name of a table, chain, set or flowtable.
// A name begins with a letter. Letters, digits and the characters "/-_." may follow, up to maxName
// bytes in all. A name must not be one of the keywords that nft 1.0.6 refuses as names.
func ValidName(name string) bool {
	if name == "" || len(name) > maxName || !isLetter(name[0]) || isKeyword(name) {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && (c < '0' || c > '9') && !strings.ContainsRune("/-_.", rune(c)) {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// isKeyword reports whether the name is a keyword that nft 1.0.6 refuses as a name.
func isKeyword(name string) bool {
	const keywords = "" +
		" accept add ah all and arp at auto-merge bridge bytes cgroup chain chains comment comp constant continue" +
		" counter counters cpu create ct day dccp define delete describe destroy device devices dnat drop dst dup" +
		" dynamic ecn element elements esp ether exists expires export exthdr fib flags flow flowtable flush frag" +
		" fwd gc-interval get goto handle hbh hook hour ibridgename ibriport ibrname icmp icmpv6 igmp iif iifgroup" +
		" iifname iiftype import include index inet insert interface interval ip ip6 ipsec jhash jump limit list" +
		" ll log map mark masquerade meta meter mh missing monitor nat netdev nftrace nh not notrack numgen" +
		" obriport obrname offload oif oifgroup oifname oiftype or osf over packets pkttype policy position" +
		" priority queue quota random redefine redirect reject rename replace reset return rt rt0 rt2 rtclassid" +
		" rule ruleset sctp secmark set sets size skgid skuid snat socket srh symhash synproxy table tables tcp th" +
		" time timeout to tproxy type typeof udp udplite undefine until update vlan vmap xor xt "
	return strings.Contains(keywords, " "+name+" ")
}

// problems collects errors with their places.
type problems struct {
	where []string
	at    int // the rule that is being checked, counted from one; zero if none
	errs  []error
}

// failedSince reports whether there are more errors than before.
func (p *problems) failedSince(before int) bool { return len(p.errs) > before }

func (p *problems) addf(format string, args ...any) {
	place := strings.Join(p.where, ": ")
	if place != "" {
		place += ": "
	}
	if p.at > 0 {
		place += fmt.Sprintf("rule %d: ", p.at)
	}
	p.errs = append(p.errs, errors.New("ruleset: "+place+fmt.Sprintf(format, args...)))
}

// in runs a check. The errors of the check have the place.
func (p *problems) in(place string, check func()) {
	p.where = append(p.where, place)
	check()
	p.where = p.where[:len(p.where)-1]
}

// validator checks chains and sets. The functions set and chain return objects to which these
// refer.
type validator struct {
	problems
	family     Family
	set        func(name string) *Set
	flowtables []*Flowtable
	chain      func(name string) *Chain
}

func (v *validator) table(family Family, name string) {
	if !ValidName(name) {
		v.addf("table %q: not a name", name)
	}
	if family.Number() == 0 {
		v.addf("table %q: unknown family %d", name, family)
	}
}

// ValidIfname reports whether the kernel accepts the string as the name of an interface.
func ValidIfname(name string) bool {
	if name == "" || len(name) >= IfnameSize || name == "." || name == ".." {
		return false
	}
	for i := range len(name) {
		switch name[i] {
		case 0, '/', ':', ' ', '\t', '\n', '\v', '\f', '\r', 0xa0: // 0xa0: the kernel's isspace follows Latin-1
			return false
		}
	}
	return true
}
