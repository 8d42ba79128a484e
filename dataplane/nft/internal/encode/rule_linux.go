// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"slices"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Position is the position of a rule: the netlink flags of its message, and at most one of the
// other fields.
type Position struct {
	Flags uint16
	// Replaces is the handle of the rule that this rule replaces.
	Replaces uint64
	// After is the handle of the rule that comes directly before this rule. If this batch adds that
	// rule, it has no handle yet. Then AfterNew is the number that AddRule returned for it.
	After    uint64
	AfterNew uint32
}

// AddRule adds a rule to a chain, at the given Position. It returns the sequence number of the
// rule's message. The parameter index is the rule's index in the chain; only errors use it.
func (e *Encoder) AddRule(chain string, index int, r *ruleset.Rule, at Position) uint32 {
	object := ruleObject(chain, index)
	body := e.rules
	hash := body.encode(object, r) // first, because it adds the messages of anonymous sets
	b := e.batch
	e.message(unix.NFT_MSG_NEWRULE, at.Flags, object, unix.NFTA_RULE_CHAIN)
	id := uint32(b.Len())
	if at.Replaces != 0 {
		b.Uint64(unix.NFTA_RULE_HANDLE, at.Replaces)
	}
	data, err := body.exprs.Data()
	if err != nil {
		e.fail(object, "%w", err)
	}
	list := b.Begin(unix.NFTA_RULE_EXPRESSIONS)
	start := b.Size(0)
	b.Raw(data)
	for _, i := range body.ids {
		b.PutUint32(start+i.at, i.id)
	}
	b.End(list)
	switch {
	case at.After != 0:
		b.Uint64(unix.NFTA_RULE_POSITION, at.After)
	case at.AfterNew != 0:
		b.Uint32(nftaRulePositionID, at.AfterNew)
	}
	b.Uint32(unix.NFTA_RULE_ID, id)
	if len(r.Comment) > ruleset.MaxComment {
		e.fail(object, "comment of %d bytes, longer than %d", len(r.Comment), ruleset.MaxComment)
	}
	e.key = ruleUserdata(e.key[:0], r.Comment, hash)
	b.Bytes(unix.NFTA_RULE_USERDATA, e.key)
	return id
}

func ruleObject(chain string, index int) nfnl.Object {
	return nfnl.Object{Kind: "rule", Name: chain, Index: index + 1}
}

// DeleteRule deletes the rule with the handle. The parameter index is the rule's index in the
// chain; only errors use it.
func (e *Encoder) DeleteRule(chain string, index int, handle uint64) {
	e.message(unix.NFT_MSG_DELRULE, 0, ruleObject(chain, index), AttrWithin)
	e.batch.Uint64(unix.NFTA_RULE_HANDLE, handle)
}

// Rule returns the expressions and the userdata of a rule. They are as AddRule would write them in
// a batch with only this rule. The two results are valid until the next call of a method. Rule
// overwrites the batch.
func (e *Encoder) Rule(chain string, index int, r *ruleset.Rule) (exprs, userdata []byte) {
	e.batch.Reset() // anonymous sets are written to the batch
	e.setID = 0
	hash := e.rules.encode(ruleObject(chain, index), r)
	e.key = ruleUserdata(e.key[:0], r.Comment, hash)
	exprs, _ = e.rules.exprs.Data()
	return exprs, e.key
}

// ruleUserdata appends a rule's userdata.
func ruleUserdata(data []byte, comment string, hash uint64) []byte {
	if comment != "" {
		data = userdata.AppendString(data, userdata.TypeComment, comment)
	}
	return appendHash(data, hash)
}

// ruleEncoder encodes the expressions of rules, one rule after another.
type ruleEncoder struct {
	enc   *Encoder
	sets  Sets
	forms *[256]fieldForm
	// object identifies the rule in errors.
	object nfnl.Object
	// exprs has the expressions of the rule. They contain the numbers of anonymous sets, which are
	// valid only within one transaction. ids has the positions of these numbers.
	exprs exprs
	ids   []idAt
	// hash is a hash of the anonymous sets of the rule.
	hash uint64
}

// idAt is the position of the number of an anonymous set.
type idAt struct {
	at int
	id uint32
}

func (e *ruleEncoder) fail(format string, args ...any) { e.enc.fail(e.object, format, args...) }

// encode writes the rule's expressions to e.exprs, and adds its anonymous sets to the batch. It
// returns a hash of the expressions, the sets and the comment.
func (e *ruleEncoder) encode(object nfnl.Object, r *ruleset.Rule) (hash uint64) {
	e.exprs.Reset()
	e.object, e.ids, e.hash = object, e.ids[:0], hashSeed
	for _, m := range r.Matches {
		switch m := m.(type) {
		case ruleset.Compare:
			e.compare(m)
		case ruleset.Lookup:
			e.lookup(m.Fields, m.Set, noRegister, m.Not)
		case ruleset.In:
			e.lookupAnonymous(m.Fields, m.Elements, noRegister, m.Not)
		case ruleset.Raw:
			e.raw(m)
		default:
			e.fail("unknown match %T", m)
		}
	}
	for _, s := range r.Statements {
		e.statement(s)
	}
	data, _ := e.exprs.Data()
	for _, i := range e.ids {
		e.exprs.PutUint32(i.at, 0) // the hash must not depend on the transaction
	}
	return mix(mix(e.hash, data), []byte(r.Comment))
}

func (e *ruleEncoder) raw(r ruleset.Raw) {
	if len(r.Expressions) == 0 {
		e.fail("raw text %q without expressions", r.Text)
	}
	for _, x := range r.Expressions {
		elem := e.exprs.Begin(unix.NFTA_LIST_ELEM)
		e.exprs.Raw(x)
		e.exprs.End(elem)
	}
}

func (e *ruleEncoder) statement(s ruleset.Statement) {
	x := &e.exprs
	switch s := s.(type) {
	case ruleset.Verdict:
		code := e.enc.verdictCode(e.object, s)
		x.verdict(code, s.Chain)
	case ruleset.VMap:
		if s.Map != "" {
			e.lookup(s.Fields, s.Map, unix.NFT_REG_VERDICT, false)
		} else {
			e.lookupAnonymous(s.Fields, s.Elements, unix.NFT_REG_VERDICT, false)
		}
	case ruleset.Counter:
		x.bare("counter")
	case ruleset.Notrack:
		x.bare("notrack")
	case ruleset.Log:
		x.log(s)
	case ruleset.Limit:
		x.limit(s)
	case ruleset.Reject:
		e.reject(s)
	case ruleset.NAT:
		e.nat(s)
	case ruleset.Assign:
		e.assign(s)
	case ruleset.FlowAdd:
		m := x.begin("flow_offload")
		x.String(attrFlowtable, s.Flowtable)
		x.end(m)
	case ruleset.Raw:
		e.raw(s)
	default:
		e.fail("unknown statement %T", s)
	}
}

func (e *ruleEncoder) reject(s ruleset.Reject) {
	typ, code := uint32(unix.NFT_REJECT_ICMPX_UNREACH), s.Code
	switch s.Kind {
	case ruleset.RejectDefault:
		code = 1
	case ruleset.RejectTCPReset:
		typ = unix.NFT_REJECT_TCP_RST
	case ruleset.RejectICMPX:
	default:
		e.fail("unknown kind of rejection %d", s.Kind)
	}
	x := &e.exprs
	m := x.begin("reject")
	x.Uint32(unix.NFTA_REJECT_TYPE, typ)
	if typ != unix.NFT_REJECT_TCP_RST {
		x.Uint8(unix.NFTA_REJECT_ICMP_CODE, code)
	}
	x.end(m)
}

// assign sets a property of the packet or connection.
func (e *ruleEncoder) assign(s ruleset.Assign) {
	x := &e.exprs
	switch {
	case s.Map != "":
		e.lookup(s.Fields, s.Map, firstRegister, false)
	case s.From != 0:
		e.load([]ruleset.Field{s.From})
	case s.Mask != 0:
		e.load([]ruleset.Field{s.Field})
		x.mask(firstRegister, ruleset.Uint32(^s.Mask), ruleset.Uint32(s.Value&s.Mask))
	default:
		x.value(ruleset.Uint32(s.Value), firstRegister)
	}
	switch l := s.Field.Load(); l.Origin {
	case ruleset.FromMeta:
		m := x.begin("meta")
		x.Uint32(unix.NFTA_META_KEY, l.Key)
		x.Uint32(unix.NFTA_META_SREG, firstRegister)
		x.end(m)
	case ruleset.FromCt:
		m := x.begin("ct")
		x.Uint32(unix.NFTA_CT_KEY, l.Key)
		x.Uint32(unix.NFTA_CT_SREG, firstRegister)
		x.end(m)
	default:
		e.fail("field %v cannot be assigned", s.Field)
	}
}

// lookup encodes the lookup of fields in a named set. The types of the set's key must be those of
// the fields. If the set is a map, the value that is found is put into the register to. The result
// is the set, or nil if there is none.
func (e *ruleEncoder) lookup(fields []ruleset.Field, name string, to uint32, not bool) *ruleset.Set {
	set := e.sets(name)
	if set == nil {
		e.fail("no set %s", name)
		return nil
	}
	if !slices.EqualFunc(fields, set.Key, func(f ruleset.Field, t ruleset.Type) bool { return f.Type() == t }) {
		e.fail("fields do not suit set %s", name)
	}
	e.load(fields)
	e.exprs.lookup(name, 0, to, not)
	return set
}

// lookupAnonymous encodes the lookup of fields in an anonymous set, which exists as long as the
// rule. It adds the set to the batch and to the rule's hash. If to is the register for verdicts,
// the set is a verdict map.
func (e *ruleEncoder) lookupAnonymous(fields []ruleset.Field, elements []ruleset.Element, to uint32, not bool) {
	s := &ruleset.Set{Name: "__set%d", Size: uint32(len(elements))} // the kernel replaces %d by a number
	if to == unix.NFT_REG_VERDICT {
		s.Name, s.Verdicts = "__map%d", true
	}
	s.Interval = slices.ContainsFunc(elements, func(el ruleset.Element) bool {
		return el.Last != nil && !bytes.Equal(el.Last, el.Key[0]) || el.Ends != nil
	})
	for _, f := range fields {
		s.Key = append(s.Key, f.Type())
	}
	if len(elements) == 0 {
		e.fail("an anonymous set needs elements")
	}
	e.enc.setID++
	id := e.enc.setID
	e.enc.batch.Message(unix.NFT_MSG_NEWSET, unix.NLM_F_CREATE, e.enc.family.Number(), e.object)
	start := e.enc.batch.Size(0)
	e.enc.setAttrs(&e.enc.batch.Attrs, e.object, s)
	e.hash = mix(e.hash, e.enc.batch.From(start))
	e.enc.batch.OrUint32(e.enc.batch.Find(start, unix.NFTA_SET_FLAGS), unix.NFT_SET_ANONYMOUS|unix.NFT_SET_CONSTANT)
	e.enc.batch.Uint32(unix.NFTA_SET_ID, id)
	if !s.Interval && !s.Verdicts && len(s.Key) == 1 && s.Key[0].Size() == 2 {
		// Otherwise the kernel chooses a bitmap of all 65,536 values: 32 kB even for two ports.
		e.enc.batch.Uint32(unix.NFTA_SET_POLICY, unix.NFT_SET_POL_MEMORY)
	}
	e.enc.elements(e.object, unix.NFT_MSG_NEWSETELEM, s, id, elements, &e.hash)
	e.load(fields)
	e.ids = append(e.ids, idAt{e.exprs.lookup(s.Name, id, to, not), id})
}

// VerdictCode returns the kernel's number of a kind of verdicts, and whether the kind is known.
func VerdictCode(kind ruleset.VerdictKind) (code int32, known bool) {
	if kind == 0 || kind > ruleset.Goto {
		return 0, false
	}
	return [...]int32{
		ruleset.Accept: 1, ruleset.Drop: 0,
		ruleset.Return: unix.NFT_RETURN, ruleset.Jump: unix.NFT_JUMP, ruleset.Goto: unix.NFT_GOTO,
	}[kind], true
}

// verdictCode returns the kernel's number of a verdict.
func (e *Encoder) verdictCode(object nfnl.Object, v ruleset.Verdict) int32 {
	code, known := VerdictCode(v.Kind)
	if chain := v.Kind == ruleset.Jump || v.Kind == ruleset.Goto; !known || chain != (v.Chain != "") {
		e.fail(object, "unknown verdict %d with chain %q", v.Kind, v.Chain)
	}
	return code
}
