// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"errors"
	"fmt"
	"slices"

	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Encoder appends the messages of one table to a batch. If it could not encode an object, Err
// returns an error.
type Encoder struct {
	batch  *nfnl.Batch
	family ruleset.Family
	table  string
	rules  *ruleEncoder
	// setID is the number of the last set of the transaction.
	setID uint32
	key   []byte
	errs  []error
}

// Sets is a function that returns the set with the given name, or nil if there is no such set. An
// Encoder does not read the elements of the set.
type Sets func(name string) *ruleset.Set

// New returns an Encoder for one table. Several Encoders may share a batch. If a rule looks up a
// named set, the Encoder gets the set from the function in the last parameter. This function may be
// nil if no rule looks up a named set.
func New(batch *nfnl.Batch, family ruleset.Family, table string, sets Sets) *Encoder {
	e := &Encoder{batch: batch, family: family, table: table}
	e.rules = &ruleEncoder{enc: e, sets: sets, forms: fieldForms()}
	return e
}

// Begin begins a transaction, and calls AddTable with the flags. The message of AddTable creates
// the table if it does not exist yet. In the answer to this message, the kernel reports the new
// generation of the ruleset, and any error that belongs to no other message.
func (e *Encoder) Begin(flags uint32) {
	e.batch.Reset()
	e.setID, e.errs = 0, nil
	e.AddTable(flags)
}

// Err returns the errors of objects that could not be encoded since Begin.
func (e *Encoder) Err() error { return errors.Join(e.errs...) }

func (e *Encoder) fail(o nfnl.Object, format string, args ...any) {
	e.errs = append(e.errs, fmt.Errorf("encode: %s: %w", o, fmt.Errorf(format, args...)))
}

// message opens a message about an object, and adds the name of the table. If name is not zero,
// message also adds the name of the object, as the attribute with this number.
func (e *Encoder) message(typ, flags uint16, object nfnl.Object, name uint16) {
	e.batch.Message(typ, flags, e.family.Number(), object)
	e.batch.String(AttrTable, e.table)
	if name != 0 {
		e.batch.String(name, object.Name)
	}
}

func tableObject(name string) nfnl.Object { return nfnl.Object{Kind: "table", Name: name} }

// AddTable creates the table with the given flags, if it does not exist. It leaves an existing
// table as it is, with one exception. If the table has the flag PERSIST, and the given flags
// contain OWNER, the table gets an owner: the socket that sends the batch.
func (e *Encoder) AddTable(flags uint32) {
	e.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_ECHO, tableObject(e.table), 0)
	if flags != 0 {
		e.batch.Uint32(unix.NFTA_TABLE_FLAGS, flags)
	}
}

// CreateTable creates the table, which must not exist yet. Kernels before 5.10 ignore the comment.
func (e *Encoder) CreateTable(flags uint32, comment string) {
	e.message(unix.NFT_MSG_NEWTABLE, unix.NLM_F_CREATE|unix.NLM_F_EXCL, tableObject(e.table), 0)
	e.batch.Uint32(unix.NFTA_TABLE_FLAGS, flags)
	if comment != "" {
		e.batch.Bytes(AttrTableUserdata, TableUserdata(comment))
	}
}

// TableUserdata returns the user data of a table with a comment.
func TableUserdata(comment string) []byte {
	return userdata.AppendString(nil, udataTableComment, comment)
}

// SetTableFlags sets the flags of an existing table.
func (e *Encoder) SetTableFlags(flags uint32) {
	e.message(unix.NFT_MSG_NEWTABLE, 0, tableObject(e.table), 0)
	e.batch.Uint32(unix.NFTA_TABLE_FLAGS, flags)
}

// DeleteTable deletes the table.
func (e *Encoder) DeleteTable() { e.message(unix.NFT_MSG_DELTABLE, 0, tableObject(e.table), 0) }

// DeleteObject deletes a stateful object.
func (e *Encoder) DeleteObject(name string, typ uint32) {
	e.message(unix.NFT_MSG_DELOBJ, 0, nfnl.Object{Kind: "object", Name: name}, unix.NFTA_OBJ_NAME)
	e.batch.Uint32(unix.NFTA_OBJ_TYPE, typ)
}

// AddFlowtable adds a flowtable, whose devices must exist.
func (e *Encoder) AddFlowtable(f *ruleset.Flowtable) {
	object := nfnl.Object{Kind: "flowtable", Name: f.Name}
	for chunk := range slices.Chunk(f.Devices, maxDevices) {
		e.message(unix.NFT_MSG_NEWFLOWTABLE, unix.NLM_F_CREATE, object, AttrFlowtableName)
		hook := e.batch.Begin(attrFlowtableHook)
		e.batch.Uint32(attrFlowtableHookNum, unix.NF_NETDEV_INGRESS)
		e.batch.Uint32(attrFlowtableHookPriority, uint32(f.Priority))
		list := e.batch.Begin(attrFlowtableHookDevices)
		for _, name := range chunk {
			e.batch.String(attrDeviceName, name)
		}
		e.batch.End(list)
		e.batch.End(hook)
		if f.Counter {
			e.batch.Uint32(attrFlowtableFlags, flowtableCounter)
		}
	}
}

// DeleteFlowtable deletes a flowtable.
func (e *Encoder) DeleteFlowtable(name string) {
	e.message(unix.NFT_MSG_DELFLOWTABLE, 0, nfnl.Object{Kind: "flowtable", Name: name}, AttrFlowtableName)
}
