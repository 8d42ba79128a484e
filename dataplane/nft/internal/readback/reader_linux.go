// SPDX-License-Identifier: Apache-2.0

package readback

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/encode"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netlink"
)

// Head has the attributes of a table without its objects.
type Head struct {
	Exists bool
	Flags  uint32
	// Owner is the netlink port of the table's owner, or zero if it has none.
	Owner uint32
	// Userdata has the table's comment, as encode.TableUserdata returns it.
	Userdata []byte
}

// table is our table as the kernel lists it, with raw attributes. It does not have the elements of
// sets: they are read one set at a time, when they are compared.
type table struct {
	Head
	chains map[string]*chain
	sets   map[string]*set
	// objects and flowtables are kinds of objects that package applier does not write.
	objects    []Object
	flowtables []string
}

type chain struct {
	attrs []byte // NFTA_CHAIN_...
	rules []rule
}

type rule struct {
	handle   uint64
	exprs    []byte // a list of NFTA_LIST_ELEM
	userdata []byte
}

type set struct {
	attrs []byte // NFTA_SET_...
	flags uint32
}

// anonymous reports whether the set belongs to a rule.
func (s *set) anonymous() bool { return s.flags&unix.NFT_SET_ANONYMOUS != 0 }

// isMap reports whether the set is a map. The kernel empties a map as soon as it is deleted.
func (s *set) isMap() bool { return s.flags&unix.NFT_SET_MAP != 0 }

// Reader reads one table from the kernel.
type Reader struct {
	conn   *nfnl.Conn
	family ruleset.Family
	table  string
	attrs  netlink.Attrs
}

// New returns a Reader of one table.
func New(conn *nfnl.Conn, family ruleset.Family, table string) *Reader {
	return &Reader{conn: conn, family: family, table: table}
}

// Compare reads the table. It returns the difference from the desired state. It also returns the
// handles of the rules of each chain, in the order of the rules. The desired state must have no
// flowtables.
func (r *Reader) Compare(want *ruleset.State) (d *Difference, handles map[string][]uint64, err error) {
	have, err := r.read()
	if err != nil {
		return nil, nil, err
	}
	c := &comparer{reader: r, enc: encode.New(nfnl.NewBatch(), r.family, r.table, want.Set), want: want, have: have}
	if d, err = c.compare(); err != nil {
		return nil, nil, err
	}
	handles = make(map[string][]uint64, len(have.chains))
	for name, c := range have.chains {
		known := make([]uint64, len(c.rules))
		for i := range c.rules {
			known[i] = c.rules[i].handle
		}
		handles[name] = known
	}
	return d, handles, nil
}

// read returns the table without the elements of its sets.
func (r *Reader) read() (*table, error) {
	f := &table{chains: map[string]*chain{}, sets: map[string]*set{}}
	var err error
	if f.Head, err = r.Head(); err != nil || !f.Exists {
		return f, err
	}
	for _, step := range []func(*table) error{r.chains, r.sets, r.rules, r.objects, r.flowtables} {
		if err := step(f); err != nil && !errors.Is(err, unix.ENOENT) {
			return nil, err
		}
	}
	return f, nil
}

// request returns the attributes that limit a request to our table. If within is not "", they also
// limit it to a chain or set.
func (r *Reader) request(within string) []byte {
	r.attrs.Reset()
	r.attrs.String(encode.AttrTable, r.table)
	if within != "" {
		r.attrs.String(encode.AttrWithin, within)
	}
	data, _ := r.attrs.Data() // the names were checked, or come from the kernel
	return data
}

// ours reports whether a message is about our table. Some dumps also return objects of other
// tables.
func (r *Reader) ours(m nfnl.Message) bool {
	return m.Family == r.family.Number() && netlink.IsText(netlink.FindAttr(m.Attrs, encode.AttrTable), r.table)
}

// dump lists objects of our table: all objects of the request's type, or those in one chain or set.
// For begin see nfnl.Conn.Dump.
func (r *Reader) dump(typ uint16, within string, begin func(), each func(attrs []byte) error) error {
	return r.conn.Dump(typ, r.family.Number(), r.request(within), begin, func(m nfnl.Message) error {
		if !r.ours(m) {
			return nil
		}
		return each(m.Attrs)
	})
}

// Head reads the attributes of the table. It is no error if the table does not exist.
func (r *Reader) Head() (h Head, err error) {
	err = r.conn.Get(unix.NFT_MSG_GETTABLE, r.family.Number(), r.request(""), func(m nfnl.Message) error {
		if r.ours(m) {
			h = Head{
				Exists:   true,
				Flags:    netlink.Number32(netlink.FindAttr(m.Attrs, unix.NFTA_TABLE_FLAGS)),
				Userdata: bytes.Clone(netlink.FindAttr(m.Attrs, encode.AttrTableUserdata)),
			}
			if h.Flags&encode.TableOwner != 0 {
				h.Owner = netlink.Number32(netlink.FindAttr(m.Attrs, encode.AttrTableOwner))
			}
		}
		return nil
	})
	if errors.Is(err, unix.ENOENT) {
		err = nil
	}
	return h, err
}

func (r *Reader) chains(f *table) error {
	return r.dump(unix.NFT_MSG_GETCHAIN, "", func() { clear(f.chains) }, func(attrs []byte) error {
		f.chains[netlink.Text(netlink.FindAttr(attrs, unix.NFTA_CHAIN_NAME))] = &chain{attrs: slices.Clone(attrs)}
		return nil
	})
}

func (r *Reader) sets(f *table) error {
	return r.dump(unix.NFT_MSG_GETSET, "", func() { clear(f.sets) }, func(attrs []byte) error {
		f.sets[netlink.Text(netlink.FindAttr(attrs, unix.NFTA_SET_NAME))] = &set{
			attrs: slices.Clone(attrs),
			flags: netlink.Number32(netlink.FindAttr(attrs, unix.NFTA_SET_FLAGS)),
		}
		return nil
	})
}

func (r *Reader) rules(f *table) error {
	begin := func() {
		for _, c := range f.chains {
			c.rules = nil
		}
	}
	return r.dump(unix.NFT_MSG_GETRULE, "", begin, func(attrs []byte) error {
		name := netlink.FindAttr(attrs, unix.NFTA_RULE_CHAIN)
		if len(name) == 0 {
			return nil
		}
		c := f.chains[string(name[:len(name)-1])]
		if c == nil {
			return fmt.Errorf("rule of unknown chain %s: %w", netlink.Text(name), unix.EINTR) // newer than the chains
		}
		c.rules = append(c.rules, ruleOf(attrs))
		return nil
	})
}

// ruleOf copies the parts of a rule that are needed.
func ruleOf(attrs []byte) rule {
	var r rule
	var exprs, userdata []byte
	for typ, value, rest, ok := netlink.NextAttr(attrs); ok; typ, value, rest, ok = netlink.NextAttr(rest) {
		switch typ {
		case unix.NFTA_RULE_HANDLE:
			r.handle = netlink.Number64(value)
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

func (r *Reader) objects(f *table) error {
	return r.dump(unix.NFT_MSG_GETOBJ, "", func() { f.objects = nil }, func(attrs []byte) error {
		f.objects = append(f.objects, Object{
			Name: netlink.Text(netlink.FindAttr(attrs, unix.NFTA_OBJ_NAME)),
			Type: netlink.Number32(netlink.FindAttr(attrs, unix.NFTA_OBJ_TYPE)),
		})
		return nil
	})
}

func (r *Reader) flowtables(f *table) error {
	err := r.dump(unix.NFT_MSG_GETFLOWTABLE, "", func() { f.flowtables = nil }, func(attrs []byte) error {
		f.flowtables = append(f.flowtables, netlink.Text(netlink.FindAttr(attrs, encode.AttrFlowtableName)))
		return nil
	})
	if errors.Is(err, unix.EOPNOTSUPP) { // a kernel without flowtables
		return nil
	}
	return err
}

// Keys calls the function each() for every element of a set, with the key of the element. A key
// consists of the bytes of its fields as the kernel stores them; each field is padded to 4 bytes.
// The function must not keep the key, and may get the same key twice. Before the first key, Keys
// calls the function begin(). If the ruleset changes meanwhile, it calls begin() again, and starts
// again with the first key.
func (r *Reader) Keys(set string, begin func(), each func(key []byte)) error {
	return r.elements(set, begin, func(attrs []byte) error {
		each(netlink.FindAttr(netlink.FindAttr(attrs, unix.NFTA_SET_ELEM_KEY), unix.NFTA_DATA_VALUE))
		return nil
	})
}

// elements calls each() with the attributes of every element of a set. For begin see dump.
func (r *Reader) elements(set string, begin func(), each func(attrs []byte) error) error {
	return r.dump(unix.NFT_MSG_GETSETELEM, set, begin, func(attrs []byte) error {
		list := netlink.FindAttr(attrs, unix.NFTA_SET_ELEM_LIST_ELEMENTS)
		for _, elem, rest, ok := netlink.NextAttr(list); ok; _, elem, rest, ok = netlink.NextAttr(rest) {
			if err := each(elem); err != nil {
				return err
			}
		}
		return nil
	})
}

// Handles returns the handles of a chain's rules, in order.
func (r *Reader) Handles(chain string) (handles []uint64, err error) {
	begin := func() { handles = handles[:0] }
	err = r.dump(unix.NFT_MSG_GETRULE, chain, begin, func(attrs []byte) error {
		if netlink.IsText(netlink.FindAttr(attrs, unix.NFTA_RULE_CHAIN), chain) {
			handles = append(handles, netlink.Number64(netlink.FindAttr(attrs, unix.NFTA_RULE_HANDLE)))
		}
		return nil
	})
	return handles, err
}
