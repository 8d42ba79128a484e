// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
)

// tableHead has the attributes of a table without its objects.
type tableHead struct {
	exists bool
	flags  uint32
	owner  uint32 // the netlink port of its owner, if the flags say that it has one
}

// found is our table as the kernel has it, as raw attributes. Elements are read when they are compared, set by set.
type found struct {
	tableHead
	chains map[string]*foundChain
	sets   map[string]*foundSet
	// objects and flowtables, of which we make none.
	objects    []foundObject
	flowtables []string
}

type foundChain struct {
	attrs []byte // NFTA_CHAIN_...
	rules []foundRule
}

type foundRule struct {
	handle   uint64
	exprs    []byte // a list of NFTA_LIST_ELEM
	userdata []byte
}

type foundSet struct {
	attrs []byte // NFTA_SET_...
	flags uint32
}

// anonymous sets belong to a rule.
func (s *foundSet) anonymous() bool { return s.flags&unix.NFT_SET_ANONYMOUS != 0 }

// isMap reports whether the set is a map, which the kernel empties as soon as it is deleted.
func (s *foundSet) isMap() bool { return s.flags&unix.NFT_SET_MAP != 0 }

// foundObject is a stateful object: a named counter, quota and so on.
type foundObject struct {
	name string
	typ  uint32
}

// reader reads the table back. What it reads is one state of the table only if the generation did
// not change meanwhile.
type reader struct {
	conn   *nfnl.Conn
	family uint8
	table  string
	attrs  nfnl.Attrs
}

// read returns the table without elements.
func (r *reader) read() (*found, error) {
	f := &found{chains: map[string]*foundChain{}, sets: map[string]*foundSet{}}
	var err error
	if f.tableHead, err = r.head(); err != nil || !f.exists {
		return f, err
	}
	for _, step := range []func(*found) error{r.chains, r.sets, r.rules, r.objects, r.flowtables} {
		if err := step(f); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	return f, nil
}

// request returns the attributes that limit a request to our table, and to the chain or set if it
// is not "".
func (r *reader) request(within string) []byte {
	r.attrs.Reset()
	r.attrs.String(attrTable, r.table)
	if within != "" {
		r.attrs.String(attrWithin, within)
	}
	data, _ := r.attrs.Data() // The names were checked, or are the kernel's.
	return data
}

// ours reports whether a message is about our table. Not every dump can be narrowed down to it.
func (r *reader) ours(m nfnl.Message) bool {
	return m.Family == r.family && nfnl.IsText(nfnl.FindAttr(m.Attrs, attrTable), r.table)
}

// dump lists objects of our table: all of the request's type, or those in one chain or set. begin
// as for nfnl.Conn.Dump.
func (r *reader) dump(typ uint16, within string, begin func(), each func(attrs []byte) error) error {
	return r.conn.Dump(typ, r.family, r.request(within), begin, func(m nfnl.Message) error {
		if !r.ours(m) {
			return nil
		}
		return each(m.Attrs)
	})
}

// head reads the attributes of the table.
func (r *reader) head() (h tableHead, err error) {
	err = r.conn.Get(unix.NFT_MSG_GETTABLE, r.family, r.request(""), func(m nfnl.Message) error {
		if r.ours(m) {
			h = tableHead{
				exists: true,
				flags:  nfnl.Number32(nfnl.FindAttr(m.Attrs, unix.NFTA_TABLE_FLAGS)),
				owner:  nfnl.Number32(nfnl.FindAttr(m.Attrs, nftaTableOwner)),
			}
		}
		return nil
	})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return h, err
}

func (r *reader) chains(f *found) error {
	return r.dump(unix.NFT_MSG_GETCHAIN, "", func() { clear(f.chains) }, func(attrs []byte) error {
		f.chains[nfnl.Text(nfnl.FindAttr(attrs, unix.NFTA_CHAIN_NAME))] = &foundChain{attrs: slices.Clone(attrs)}
		return nil
	})
}

func (r *reader) sets(f *found) error {
	return r.dump(unix.NFT_MSG_GETSET, "", func() { clear(f.sets) }, func(attrs []byte) error {
		f.sets[nfnl.Text(nfnl.FindAttr(attrs, unix.NFTA_SET_NAME))] = &foundSet{
			attrs: slices.Clone(attrs),
			flags: nfnl.Number32(nfnl.FindAttr(attrs, unix.NFTA_SET_FLAGS)),
		}
		return nil
	})
}

func (r *reader) rules(f *found) error {
	begin := func() {
		for _, c := range f.chains {
			c.rules = nil
		}
	}
	return r.dump(unix.NFT_MSG_GETRULE, "", begin, func(attrs []byte) error {
		name := nfnl.FindAttr(attrs, unix.NFTA_RULE_CHAIN)
		if len(name) == 0 {
			return nil
		}
		c := f.chains[string(name[:len(name)-1])]
		if c == nil {
			return fmt.Errorf("rule of unknown chain %s: %w", nfnl.Text(name), unix.EINTR) // Newer than the chains.
		}
		c.rules = append(c.rules, foundRuleOf(attrs))
		return nil
	})
}

// foundRuleOf keeps what is needed of a rule, in memory of its own.
func foundRuleOf(attrs []byte) foundRule {
	var r foundRule
	var exprs, userdata []byte
	for typ, value, rest, ok := nfnl.NextAttr(attrs); ok; typ, value, rest, ok = nfnl.NextAttr(rest) {
		switch typ {
		case unix.NFTA_RULE_HANDLE:
			r.handle = nfnl.Number64(value)
		case unix.NFTA_RULE_EXPRESSIONS:
			exprs = value
		case unix.NFTA_RULE_USERDATA:
			userdata = value
		}
	}
	both := make([]byte, len(exprs)+len(userdata))
	n := copy(both, exprs)
	copy(both[n:], userdata)
	r.exprs, r.userdata = both[:n:n], both[n:]
	return r
}

func (r *reader) objects(f *found) error {
	return r.dump(unix.NFT_MSG_GETOBJ, "", func() { f.objects = nil }, func(attrs []byte) error {
		f.objects = append(f.objects, foundObject{
			name: nfnl.Text(nfnl.FindAttr(attrs, unix.NFTA_OBJ_NAME)),
			typ:  nfnl.Number32(nfnl.FindAttr(attrs, unix.NFTA_OBJ_TYPE)),
		})
		return nil
	})
}

func (r *reader) flowtables(f *found) error {
	err := r.dump(unix.NFT_MSG_GETFLOWTABLE, "", func() { f.flowtables = nil }, func(attrs []byte) error {
		f.flowtables = append(f.flowtables, nfnl.Text(nfnl.FindAttr(attrs, nftaFlowtableName)))
		return nil
	})
	if errors.Is(err, unix.EOPNOTSUPP) { // A kernel without them.
		return nil
	}
	return err
}

// elements hands over the elements of a set, as the attributes of each. begin as for a dump.
func (r *reader) elements(set string, begin func(), each func(attrs []byte) error) error {
	return r.dump(unix.NFT_MSG_GETSETELEM, set, begin, func(attrs []byte) error {
		list := nfnl.FindAttr(attrs, unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, elem, rest, ok := nfnl.NextAttr(list); ok; _, elem, rest, ok = nfnl.NextAttr(rest) {
			if err := each(elem); err != nil {
				return err
			}
		}
		return nil
	})
}

// handles returns the handles of a chain's rules, in order.
func (r *reader) handles(chain string) (handles []uint64, err error) {
	begin := func() { handles = handles[:0] }
	err = r.dump(unix.NFT_MSG_GETRULE, chain, begin, func(attrs []byte) error {
		if nfnl.IsText(nfnl.FindAttr(attrs, unix.NFTA_RULE_CHAIN), chain) {
			handles = append(handles, nfnl.Number64(nfnl.FindAttr(attrs, unix.NFTA_RULE_HANDLE)))
		}
		return nil
	})
	return handles, err
}
