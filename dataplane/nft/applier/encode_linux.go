// SPDX-License-Identifier: Apache-2.0

package applier

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// encoder writes the messages of one table. What cannot be encoded is an error,
// never a message with less in it.
type encoder struct {
	batch  *nfnl.Batch
	family uint8
	kind   ruleset.Family
	table  string
	// exprs of the rule under way, and where in them the numbers of anonymous sets stand, which
	// mean something only within one transaction.
	exprs exprs
	ids   []idAt
	// hash of the anonymous sets of the rule.
	hash uint64
	// setID is the number of the last anonymous set of the transaction.
	setID uint32
	// flags that the table is made with.
	flags uint32
	key   []byte
	facts *[256]fact
	errs  []error
}

// idAt is a place where the number of an anonymous set is to stand.
type idAt struct {
	at int
	id uint32
}

// begin starts a transaction. Its first message only requests the new generation, and gets the
// errors that the kernel cannot attribute to another message. If there is no table yet, the message
// creates it.
func (e *encoder) begin() {
	e.batch.Reset()
	e.setID, e.errs = 0, nil
	e.newTable()
}

// newTable writes the message that creates the table. It leaves an existing table as it is, unless
// that has PERSIST and e.flags has OWNER as well: then our socket owns it from here on.
func (e *encoder) newTable() {
	e.tableMessage(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_ECHO)
	if e.flags != 0 {
		e.batch.Uint32(unix.NFTA_TABLE_FLAGS, e.flags)
	}
}

// finish returns what could not be encoded.
func (e *encoder) finish() error { return errors.Join(e.errs...) }

func (e *encoder) fail(o nfnl.Object, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("applier: encode %s: %w", o, fmt.Errorf(format, args...)))
}

// message opens a message about an object, with the table's name and, as the attribute name, the
// object's.
func (e *encoder) message(typ, flags uint16, object nfnl.Object, name uint16) {
	e.batch.Message(typ, flags, e.family, object)
	e.batch.String(attrTable, e.table)
	e.batch.String(name, object.Name)
}

func (e *encoder) tableMessage(typ, flags uint16) {
	e.batch.Message(typ, flags, e.family, nfnl.Object{Kind: "table", Name: e.table})
	e.batch.String(attrTable, e.table)
}

// plainChain adds an empty chain without a hook.
func (e *encoder) plainChain(name string) {
	e.message(unix.NFT_MSG_NEWCHAIN, unix.NLM_F_CREATE, nfnl.Object{Kind: "chain", Name: name}, unix.NFTA_CHAIN_NAME)
}

func (e *encoder) deleteChain(name string) {
	e.message(unix.NFT_MSG_DELCHAIN, 0, nfnl.Object{Kind: "chain", Name: name}, unix.NFTA_CHAIN_NAME)
}

// flushChain deletes all rules of a chain.
func (e *encoder) flushChain(name string) {
	e.message(unix.NFT_MSG_DELRULE, 0, nfnl.Object{Kind: "chain", Name: name}, attrWithin)
}

func (e *encoder) deleteSet(name string) {
	e.message(unix.NFT_MSG_DELSET, 0, nfnl.Object{Kind: "set", Name: name}, unix.NFTA_SET_NAME)
}

// flushSet deletes all elements of a set.
func (e *encoder) flushSet(name string) {
	e.message(unix.NFT_MSG_DELSETELEM, 0, nfnl.Object{Kind: "set", Name: name}, attrWithin)
}

// deleteRule deletes one rule by its handle.
func (e *encoder) deleteRule(chain string, index int, handle uint64) {
	e.message(unix.NFT_MSG_DELRULE, 0, nfnl.Object{Kind: "rule", Name: chain, Index: index + 1}, attrWithin)
	e.batch.Uint64(unix.NFTA_RULE_HANDLE, handle)
}
