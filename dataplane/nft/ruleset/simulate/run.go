// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"bytes"
	"encoding/binary"
	"math"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// run is one packet that passes a hook. It is on the stack.
type run struct {
	Result
	sim     *Simulator
	point   ruleset.HookPoint
	tracing bool
	tracked bool // connection tracking has seen the packet
	notrack bool // a rule excluded the packet from connection tracking
	header  header
	frame   *linkFrame // nil if there is no Packet.Frame
	err     error      // the error of a chain that cannot be compiled
	arrived Tuple      // the packet's own tuple before any translation
	buffers
}

// buffers has the memory of values that a run compares and looks up.
type buffers struct {
	iif, oif     [ruleset.IfnameSize]byte
	scratch, key [ruleset.MaxKey]byte
}

// priorityConntrack is the priority of connection tracking, in the hooks where it begins.
const priorityConntrack = -200

func (s *Simulator) run(point ruleset.HookPoint, p Packet, c Conn, tracing bool) (Result, error) {
	r := run{sim: s, point: point, tracing: tracing}
	r.Packet, r.Conn = p, c
	r.UpTo = s.header.most
	if err := r.prepare(); err != nil {
		return Result{}, err
	}
	r.Verdict, r.Rule = ruleset.Accept, -1
	chains := s.hooks[point]
	if !sees(s.family, r.header.v6) {
		chains = nil
	}
	for i, base := range chains {
		r.tracked = !r.beforeConntrack(base)
		if base.Hook.Type == ruleset.HookNAT && !r.translates() {
			continue
		}
		r.Verdict = r.walk(base)
		if r.err != nil {
			return Result{}, r.err
		}
		if r.Verdict != ruleset.Accept {
			break
		}
		lastNAT := base.Hook.Type == ruleset.HookNAT && (i+1 == len(chains) || chains[i+1].Hook.Type != ruleset.HookNAT)
		if lastNAT && r.Conn.Status&statusConfirmed == 0 {
			r.Conn.Status |= r.translationBit()
		}
	}
	return r.Result, nil
}

// prepare writes the headers and interface names from which fields are loaded.
func (r *run) prepare() error {
	p := &r.Packet
	copy(r.iif[:ruleset.IfnameSize-1], p.IIFName)
	copy(r.oif[:ruleset.IfnameSize-1], p.OIFName)
	if p.Frame != nil {
		var err error
		r.frame, err = newLinkFrame(r.sim.family, p.Frame)
		if err == nil {
			r.header.setFrame(r.frame, p)
		}
		return err
	}
	if err := r.header.write(p, &r.sim.header); err != nil {
		return err
	}
	r.arrived = Tuple{Src: p.Src, Dst: p.Dst}
	switch b := r.header.bytes[r.header.start:]; p.Protocol {
	case protoTCP, protoUDP, protoUDPLite, protoDCCP, protoSCTP:
		r.arrived.SrcPort, r.arrived.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	case protoICMP, protoICMPv6:
		r.arrived.SrcPort, r.arrived.DstPort = binary.BigEndian.Uint16(b[4:]), binary.BigEndian.Uint16(b)
	}
	return nil
}

// sees reports whether tables of the family see IP packets of this version.
func sees(f ruleset.Family, v6 bool) bool {
	switch f {
	case ruleset.FamilyINet, ruleset.FamilyBridge:
		return true
	case ruleset.FamilyIPv4:
		return !v6
	case ruleset.FamilyIPv6:
		return v6
	default:
		return false
	}
}

// beforeConntrack reports whether the chain sees packets before connection tracking. Packets that
// come back over the loopback interface were tracked when they were sent.
func (r *run) beforeConntrack(base *chain) bool {
	switch r.point {
	case ruleset.Prerouting:
		return base.Hook.Priority < priorityConntrack && r.Packet.IIFName != "lo"
	case ruleset.Output:
		return base.Hook.Priority < priorityConntrack
	default:
		return false
	}
}

// frame is the place where evaluation continues after a return.
type frame struct {
	chain *chain
	rule  int
}

// walk runs the packet through a base chain and the chains that it jumps to.
func (r *run) walk(base *chain) ruleset.VerdictKind {
	var stack [ruleset.MaxDepth + 1]frame
	depth := 0
	at := frame{chain: base}
	for {
		if r.err = r.sim.ready(at.chain); r.err != nil {
			return ruleset.Drop
		}
		var v verdict
		for at.rule < len(at.chain.rules) && v.kind == 0 {
			v = r.rule(at.chain, at.rule)
			at.rule++
		}
		switch v.kind {
		case ruleset.Accept, ruleset.Drop:
			r.Chain, r.Rule = at.chain.Name, at.rule-1
			return v.kind
		case ruleset.Jump:
			if depth == len(stack) { // as in the kernel; Validate prevents this
				return ruleset.Drop
			}
			stack[depth] = at
			depth++
			at = frame{chain: v.chain}
		case ruleset.Goto:
			at = frame{chain: v.chain}
		default: // a return, or the end of the chain
			if depth == 0 {
				r.Chain, r.Rule = base.Name, -1
				if r.tracing {
					r.Trace = append(r.Trace, Step{Chain: base.Name, Rule: -1, Verdict: base.Hook.Policy})
				}
				return base.Hook.Policy.Kind
			}
			depth--
			at = stack[depth]
		}
	}
}

// rule evaluates one rule and returns its verdict. If there is none, its kind is 0.
func (r *run) rule(c *chain, i int) (v verdict) {
	rule := &c.rules[i]
	for j := range rule.ops {
		var goesOn bool
		if v, goesOn = r.op(&rule.ops[j]); !goesOn {
			return verdict{}
		}
		if v.kind != 0 {
			break
		}
	}
	if r.tracing {
		r.Trace = append(r.Trace, Step{Chain: c.Name, Rule: i, Comment: rule.comment, Verdict: v.verdict()})
	}
	return v
}

// op evaluates one operation. It returns a verdict, and whether the evaluation of the rule
// continues.
func (r *run) op(op *operation) (v verdict, goesOn bool) {
	switch op.kind {
	case opVerdict:
		return op.verdict, true
	case opLookup:
		key, ok := r.load(op.fields)
		if !ok {
			return v, false
		}
		_, _, found := op.set.Find(key)
		return v, found != op.not
	case opVMap:
		_, to, ok := r.lookup(op)
		return r.sim.verdict(to), ok
	case opLog:
		r.Logs = append(r.Logs, *op.log)
		return v, true
	case opLimit:
		r.Limited = true
		return v, r.Packet.OverLimit == op.not
	case opNotrack:
		if !r.connected() { // this includes packets that tracking found invalid
			r.notrack, r.Conn.State = true, ruleset.CtUntracked
		}
		return v, true
	case opReject:
		r.Rejected = op.reject
		return verdict{kind: ruleset.Drop}, true
	case opAssign:
		return v, r.assign(op)
	case opNAT:
		return r.nat(op)
	}
	f := &op.fields[0]
	value, ok := r.field(f)
	if f.shared {
		r.limitShared(f, op.upTo(value))
	}
	return v, ok && op.compares(value) != op.not
}

// limitShared records that a rule used fields of Packet.Header. If the load consists of exactly one
// field, the effect is the same for all values from the packet's up to most.
func (r *run) limitShared(f *field, most uint16) {
	if r.header.fragment && f.load.Base == transportHeader {
		r.limitHeaders() // the load may have read the IP header
		return
	}
	family := 0
	if r.header.v6 {
		family = 1
	}
	for h, share := range f.shares[family] {
		switch share {
		case same:
			r.UpTo[h] = min(r.UpTo[h], max(most, r.Packet.Header[h]))
		case some:
			r.UpTo[h] = min(r.UpTo[h], r.Packet.Header[h])
		}
	}
}

// limitHeaders records that the result may differ for any other value of any field of
// Packet.Header.
func (r *Result) limitHeaders() {
	for h := range r.UpTo {
		r.UpTo[h] = min(r.UpTo[h], r.Packet.Header[h])
	}
}

// upTo returns the largest value that is at least v and gives the same result of the comparison, as
// do all values between.
func (op *operation) upTo(v ruleset.Value) uint16 {
	n, first := numberOf(v), numberOf(op.value)
	last := first
	switch op.kind {
	case opEqual:
	case opRange:
		last = numberOf(op.last)
	default:
		return n
	}
	switch {
	case n < first:
		return first - 1
	case n <= last:
		return last
	default:
		return math.MaxUint16
	}
}

// compares reports whether the value satisfies the operation, without its negation.
func (op *operation) compares(v ruleset.Value) bool {
	switch op.kind {
	case opEqual:
		return bytes.Equal(v, op.value)
	case opPrefix:
		return bytes.HasPrefix(v, op.value)
	case opRange:
		return bytes.Compare(op.value, v) <= 0 && bytes.Compare(v, op.last) <= 0
	case opMasked:
		for i := range v {
			if v[i]&op.mask[i] != op.value[i] {
				return false
			}
		}
		return true
	default: // opAnyBit
		for i := range v {
			if v[i]&op.value[i] != 0 {
				return true
			}
		}
		return false
	}
}

// lookup returns the data or the verdict that the operation's map has for the packet's fields. If
// it has none, or a field cannot be loaded, ok is false.
func (r *run) lookup(op *operation) (data []byte, to ruleset.Verdict, ok bool) {
	key, ok := r.load(op.fields)
	if !ok {
		return nil, to, false
	}
	return op.set.Find(key)
}

// load concatenates the fields. If a field cannot be loaded, ok is false.
func (r *run) load(fields []field) (key []byte, ok bool) {
	n := 0
	for i := range fields {
		v, ok := r.field(&fields[i])
		if !ok {
			return nil, false
		}
		if fields[i].shared {
			r.limitShared(&fields[i], 0)
		}
		n += copy(r.key[n:], v)
	}
	return r.key[:n], true
}
