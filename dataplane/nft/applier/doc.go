// SPDX-License-Identifier: Apache-2.0

// Package applier keeps one nftables table in the kernel in its desired state. In its first call,
// an Applier adopts the table in the kernel: it reads the table and keeps what is equal. Later
// calls write only changes. If the kernel supports table owners, no other process can change the
// table. The package does not depend on policy, so any program can manage a table with it. It uses
// netlink, and needs no nft program.
//
//	Update(delta) ─▶ ruleset.State ─▶ operations ─▶ one transaction ─▶ nf_tables
//	                     ▲                              │ refused, or the table was touched
//	                     └── compare ◀── read back ◀────┘      ▲
//	                                          notifications ───┘ Watch
//
// Package internal/encode turns operations into netlink messages. Package internal/readback
// compares the kernel's table with the desired one. The applier decides what is written, and in
// which order.
//
// # Usage
//
//	a, err := applier.New(applier.Config{Name: "mine"})
//	err = a.Apply(ctx, table)           // the whole table: the first time, it adopts
//	err = a.Update(ctx, &ruleset.Delta{ // or a change, in time in proportion to it
//		Elements: []ruleset.ElementDelta{{Set: "blocked", Add: elements}},
//	})
//	go a.Watch(ctx, func(d applier.Drift) { wake <- d }) // then the owner calls a.Resync(ctx)
//
// An Applier does not retry by itself. After an error, its user calls a.Resync after a while. The
// program examples/portforward has a loop that does this and handles drifts.
//
// The table must belong to this program alone, because the Applier removes all objects that are not
// desired. This includes stateful objects and flowtables. Apply, PlanTable, Update and Compare
// refuse a desired table with flowtables. The Applier writes to no other table, except to a
// temporary one whose name ends with "-guard". nft 1.0.6 and later can list the table. A process
// may have several Appliers, one for each table.
//
// # Transactions
//
// A change is one transaction, with the exceptions below. So packets see the old state or the new
// one, and a transaction that the kernel refuses has no effect. The Applier identifies rules by
// their handles, so unchanged rules keep their counters.
//
// Each transaction is valid for one generation of the ruleset. If another process commits a
// transaction in between, the kernel refuses ours. The notifications then show whether our table
// changed. If it did not, the Applier sends the transaction again at once. If the table changed, or
// if notifications were lost, it reads the table back first.
//
// A packet uses the rules of the generation in which it entered a chain, but the current elements
// of sets. The kernel keeps only two generations. If two transactions pass while a packet is
// delayed, the packet uses the rules of the second one in each chain that it enters afterwards. So
// without Config.Epoch, a packet may use parts of two states.
//
// The kernel changes two things a little later than the rest of a transaction, by about a
// microsecond for each object in it:
//
//   - The policy of a base chain. So if the policy changes, or a new base chain has the policy
//     drop, the chain first gets a last rule with the verdict of the policy. The policy follows
//     after a grace period. A third transaction removes the rule.
//   - The elements of interval sets. So new interval sets are filled before any rule looks into
//     them.
//
// To a packet on the previous generation, a chain that a transaction adds is empty, although an
// element of a map may already lead there. The packet returns from the chain without a decision.
// With Config.Epoch, such a transaction begins a new epoch: it replaces a set that each packet must
// match. The packet then looks into the old, empty set, and rules of the table evaluate it anew
// (see ruleset.Epoch). So a table with an Epoch must not drop packets without a decision before
// they look into that set: they would be lost although both states allow them.
//
// While base chains or the whole table are replaced, a second table drops all packets at the hooks
// of the old base chains, except at those of type nat. Its name is that of the first table with the
// suffix "-guard".
//
//   - It is also used if the table in the kernel has no set of the Epoch yet: packets under way use
//     rules that do not look up the set.
//   - It is not used if an existing base chain takes the place of a deleted one. Then both may
//     accept a delayed packet.
//   - It is deleted after a grace period. If that fails, the next call deletes it. The kernel
//     deletes it when the process ends. After ten seconds it drops nothing.
//
// A deleted chain keeps its rules until it has left its hook, but its sets are already empty. So if
// a base chain with the policy accept is deleted without a replacement, the first transaction
// deletes its rules and the next one the chain.
//
// The kernel sends a notification for each element of a transaction to listeners in all network
// namespaces. This doubles the time of a large transaction. The Applier does not listen during its
// own large transactions: the generation numbers show whether another transaction came in between.
// Other listeners, such as "nft monitor", still cost that time.
//
// # Shadows
//
// The kernel changes all elements of one interval set at one moment, but not at the moment of the
// other changes. So a change of one interval set is one transaction if the same packets use nothing
// else that changes. With Config.Epoch, the Delta must also be Apart (each packet looks up at most
// one of its changes), because otherwise the epoch changes, too. All other changes of interval sets
// take five steps, with shadows. A shadow is a copy of a set or chain in its new state:
//
//	build    a shadow of each set whose elements change, and of each chain whose rules change or
//	         look into such a set; rules of shadow chains look into shadow sets
//	live     after a grace period, one transaction: each such chain gets a first rule "goto shadow-N"
//	sync     after a grace period, the sets and chains themselves change
//	back     the first rules are deleted
//	destroy  after a grace period, the shadows are deleted
//
// Packets see the whole change at the end of live. No packet is lost that both states allow, and
// none passes that both forbid. Without Config.Epoch, there is one exception: a packet that is
// delayed while another process commits a transaction and then live is committed.
//
// The other steps cost the kernel a copy of the sets. Apply and Update take about 60 ms, for three
// grace periods (membarrier). Counters and limits of the chains' own rules survive, but do not
// count packets that pass shadows. A limit starts again in a shadow. Edits of rules without
// intervals, and of other sets, need no shadow.
//
// A transaction may be larger than Config.MaxBatch, or than the kernel accepts from an ordinary
// user (net.core.wmem_max). Then it is split: the first part adds new objects, the second part
// changes what packets use, and the third part deletes unreachable objects. If the second part is
// too large, it uses shadows. Shadows are filled and synchronized in any number of transactions.
//
// If a process ends between two transactions, the next process removes the shadows when it adopts
// the table. If the kernel refuses a step, packets see the old state before live, and the new state
// after it. The Applier then reads the table back and completes the change.
//
// Shadows are not possible in these cases:
//
//   - The type of a set changes, or its elements have timeouts.
//   - A ruleset.Raw looks into the set.
//   - The hook of a base chain changes.
//   - More than 15 jumps would follow one another. A chain with a shadow counts twice, and at
//     adoption every chain does.
//
// Then the affected chains drop for one transaction. If the change does not fit into one
// transaction, it fails with EMSGSIZE. So does a replacement of the table that does not fit, if the
// table has conflicting objects of another process.
//
// Up to Linux 6.16, a lookup may miss an element of an interval set while a transaction replaces
// the element by one that overlaps it. So on these kernels, such changes use shadows, too. In a set
// with concatenations, so does every replacement of elements.
//
// If the step live does not fit into one transaction (about 130 bytes for each chain), the change
// uses no shadows. The affected chains then drop until the change is complete.
//
// # Translations
//
// Destination NAT translates a new connection in one hook, and filter rules see it in a later hook.
// During a change, the connection could be translated by the old state and filtered by the new one.
// So if a change adds, removes or replaces elements of a map in Config.Translations, there is a
// translation guard. Two temporary base chains drop new connections to these keys. The change
// follows after a grace period. The last transaction deletes the chains. While a table without an
// owner is replaced, such guards drop new connections to all keys of the old and the new maps:
// first a guard in the old table, then one in the new table.
//
// # Stages
//
// A packet can meet the old state in one base chain and the new state in a later one. So name the
// base chains with policy that come before others in Config.Stages. The following applies to a
// change that concerns such a base chain (a stage) and also later chains, or a set that both look
// into.
//
// Before such a change, the applier adds a stage guard: a temporary base chain behind the stage. It
// evaluates a copy of the stage's new state, and drops packets that the copy denies. The change
// follows after a grace period. After a second grace period the guard loses its rules. After a
// third one the guard and its copies are deleted. So a packet passes only if the old or the new
// state as a whole allows it. Meanwhile, rules of the stage may log a packet twice.
//
// # Ownership
//
// From Linux 6.9 on, a netlink socket can own a table, and the table outlives the socket. New
// checks whether the kernel supports this. If so, the Applier owns the table from its first call
// on: the kernel refuses the writes of every other socket with EPERM, and "nft flush ruleset" skips
// the table. After Close, or after the process ends in any way, the table has no owner. The next
// Applier takes the table over by one message, which changes nothing else. While the table has an
// owner, a second Applier of this table gets an *OwnedError, and writes nothing.
//
// A table that was created without an owner cannot get one. So the Applier replaces it in one
// transaction, and its counters start at zero. If the table is too large for that, or the kernel
// refuses it three times, it stays without an owner. The log and Stats.Owned report this. On older
// kernels, and with Config.Shared, no table has an owner: the Applier detects and repairs changes
// by other processes.
//
// # Adoption
//
// The first call reads the table back and compares it with the desired one. So does the first call
// after a failure, or after a change by another process.
//
//   - A rule is compared by the hash in its userdata, and by the bytes of its expressions with the
//     names of chains and sets.
//   - A set is compared by its type and all its elements.
//
// Equal objects stay as they are, with their counters. If all are equal, only the owner of the
// table is written. The policy of a base chain is changed in place, and a chain with another hook
// is replaced alone. But if a set has another type than desired, the whole table is replaced, and
// all counters start at zero.
//
// # Refusals
//
// If the kernel refuses a transaction, the Applier reads the table back and retries once. If the
// kernel refuses it again, the Applier finds the objects at fault. It uses the kernel's answers, or
// bisection if these name no object: the kernel checks trial transactions without committing them.
// In place of a chain at fault, it programs a chain that drops. A set at fault is left out, and the
// chains that look into it drop. Everything else is programmed, so no packet passes that the new
// state forbids. If a base chain is at fault, nothing is written. While an object is held back
// (left out because the kernel refuses it), every call reads the table back and tries the object
// again.
//
// # Concurrency
//
// Only one goroutine at a time may use an Applier. Other goroutines may call Watch and Table
// meanwhile.
//
// # Errors
//
// An error of the kernel is an *Error. Its Detail has the kernel's message. Its cause may be:
//
//   - an *ObjectError, for an object that is held back. Then everything else is programmed.
//   - an *OwnedError, if another process owns the table.
//
// After any error the desired state stays, and the next call tries again.
package applier
