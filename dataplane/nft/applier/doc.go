// SPDX-License-Identifier: Apache-2.0

// Package applier keeps one nftables table in the kernel in its desired state. The first time it
// adopts the kernel's table; from then on it writes changes. If the kernel supports table owners,
// no other process can change the table. The package depends on package ruleset, but not on policy,
// so any program can manage a table with it. It uses netlink, and needs no nft program.
//
//	Update(delta) ─▶ ruleset.State ─▶ operations ─▶ one transaction ─▶ nf_tables
//	                     ▲                              │ refused, or the table was touched
//	                     └── compare ◀── read back ◀────┘      ▲
//	                                          notifications ───┘ Watch
//
// Package internal/encode turns the operations into messages, and package internal/readback compares
// the kernel's table with the desired one. The applier decides what is written, and in which order.
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
// Nothing is tried again by itself: after an error, the owner calls a.Resync after a while. The
// program examples/portforward has the loop that does both.
//
// nft 1.0.6 and later can list the table. The table must be this program's alone: objects that are
// not desired are removed, including stateful objects and flowtables. An Applier writes neither:
// Apply, PlanTable, Update and Compare refuse a table with flowtables. The Applier writes to no other
// table, except a temporary one, whose name ends with "-guard".
// Several Appliers may be in one process, one for each table.
//
// # Transactions
//
// A change is one transaction, with the exceptions below: packets see the old state or the new one,
// and a refused transaction leaves no trace. Rules are identified by their handles, so counters of
// unchanged rules survive. Every transaction is valid for one generation of the ruleset only: if
// another process commits anything in between, the kernel refuses it. The notifications then show
// whether our table changed. If it did not, the transaction is sent again at once. If it did, or if
// notifications were lost, the table is read back first.
//
// A packet uses the rules of its generation but the current elements of sets. The kernel keeps two
// generations: a packet that is delayed during two transactions uses the rules of the second in each
// chain that it enters from then on. So it may use parts of two states, unless Config.Epoch is set.
//
// The kernel switches two things after the rest of a transaction, by about a microsecond for each
// object in it: the policy of a base chain, and the elements of interval sets. So a base chain whose
// policy changes, or a new one whose policy is drop, first gets a last rule with the verdict of the
// policy. The policy follows after a grace period, and a third transaction removes the rule. New
// interval sets are filled before any rule looks into them.
//
// To a packet of the previous generation, a chain that the transaction adds is empty, while an
// element of a map may already lead there. The packet returns from the chain without a decision.
// With Config.Epoch, such a transaction begins a new epoch, and the check of the epoch finds the
// packet. So the table must not drop undecided packets before that check: they would be lost
// although both states allow them.
//
// While base chains are replaced, or the whole table is, a second table drops all packets at the
// hooks of the old base chains, except those of type nat. The same holds if the table has no Epoch
// yet: packets in the kernel use rules that do not look up its set. The name of the second table is
// that of the first with the suffix "-guard". It is deleted after a grace period. If that fails,
// the next call deletes it. The kernel deletes it if the process ends. After ten seconds it drops
// nothing. There is no such table if an existing base chain replaces a deleted one: then both may
// accept a delayed packet.
//
// A chain keeps its rules in the transaction that deletes it, until it has left its hook, while its
// sets are empty. So a base chain with the policy accept that no other replaces first loses its
// rules. The next transaction deletes it.
//
// The kernel sends every element of a transaction to listeners for notifications, in any network
// namespace, which doubles the time of a large transaction. An Applier does not listen to its own
// large transactions: the generation numbers show that no other transaction came in between. Other
// listeners, such as "nft monitor", still cost that time.
//
// # Shadows
//
// All elements of one interval set change at one moment. Such a change is one transaction unless
// anything else changes that the same packets use. With Config.Epoch, that includes the epoch, unless
// the Delta is Apart. Then the change takes five steps with shadows, which are copies of sets and
// chains in their new state:
//
//	build    a shadow of each set whose elements change, and of each chain whose rules change or
//	         look into such a set; rules of shadow chains look into shadow sets
//	live     after a grace period, one transaction: each such chain gets a first rule "goto shadow-N"
//	sync     after a grace period, the sets and chains themselves change
//	back     the first rules are deleted
//	destroy  after a grace period, the shadows are deleted
//
// Packets see that change at one moment, at the end of live: no packet is lost that both states
// allow, and none passes that both forbid. Without Config.Epoch there is one exception: a packet that
// is delayed while another process commits a transaction and then live is committed. The other steps
// cost the kernel a copy of the sets, and Apply and Update about 60 ms for three grace periods
// (membarrier). Counters and limits of the chains' own rules survive, but do not count packets that
// pass shadows; a limit starts again in a shadow. Edits of rules without intervals, and of other sets,
// need no shadow.
//
// A transaction is split if it is larger than Config.MaxBatch, or than the kernel accepts from an
// ordinary user (net.core.wmem_max). The first part adds new objects, the second changes what
// packets use, and the third deletes unreachable objects. If the second part is too large by
// itself, it uses shadows, which are filled and synchronized in any number of transactions.
//
// If a process ends between two transactions, the next process removes its shadows when it adopts
// the table. If the kernel refuses a step, packets see the old state before live, and the new state
// after it. The Applier then reads the table back and completes the change.
//
// Shadows are not possible for a set whose type changes or whose elements have timeouts, for a set
// that a Raw looks into, for a base chain whose hook changes, and if more than 15 jumps would
// follow one another. For this, a chain with a shadow counts twice, and at adoption every chain
// does. Without shadows, the affected chains drop for one transaction. A change that is too large
// for one transaction fails with EMSGSIZE. So does a replacement that is too large, if the table
// has conflicting objects of another process.
//
// Up to Linux 6.16, elements of an interval set that replace others which they overlap need shadows, too:
// meanwhile, the kernel may find neither. In a concatenation, every replacement does.
//
// If the step live is itself too large (about 130 bytes for each chain), there are no shadows. The
// affected chains then drop until the change is complete.
//
// # Translations
//
// Destination NAT has a hook of its own. The old state of a map could translate a new connection,
// and the rules of the new state filter it. So if a change adds, removes or replaces elements of a
// map that Config.Translations names, two temporary base chains first drop new connections to these
// keys: a translation guard. The change follows after a grace period. A last transaction deletes
// the chains. While a table without an owner is replaced, such guards drop new connections to all
// keys of the old and new maps, first in the old table and then in the new one.
//
// # Stages
//
// A packet can meet the old state in one base chain and the new state in a later one. So some changes
// concern a base chain of Config.Stages and later chains at once: several of these change, or a set
// that both look into. Before such a change, the applier adds a stage guard: a temporary base chain
// behind the stage. It evaluates a copy of the stage's new state, and drops what that denies. The
// change follows after a grace period. After another one the guard loses its rules, and after a third
// one it is deleted with its copies. So a packet passes only if the old or the new state as a whole
// allows it. Meanwhile a rule of the stage may log a packet twice.
//
// # Ownership
//
// From Linux 6.9 on, a table can have a netlink socket as its owner and outlive that socket. New
// checks whether the kernel supports that. If so, the Applier owns the table from its first call
// on: the kernel refuses the writes of every other socket with EPERM, and "nft flush ruleset" skips
// the table. Close, and the end of the process in any way, leave the table without an owner. The
// next Applier takes it over by one message, which changes nothing else. While the owner lives, a
// second Applier of the same table gets an *OwnedError, and writes nothing.
//
// A table that was created without an owner cannot get one. It is replaced in one transaction, and
// its counters start at zero. If it is too large for that, or the kernel refuses it three times,
// the table stays without an owner, which the log and Stats.Owned report. On older kernels, and
// with Config.Shared, no table has an owner: changes by other processes are detected and repaired.
//
// # Adoption
//
// The first call, and the first one after a failure or after a foreign change, reads the table back
// and compares it. A rule is compared by the hash in its userdata and by the bytes of its
// expressions, names of chains and sets included; a set by its type and every element. Equal
// objects stay untouched, with their counters; if all are equal, only the owner of the table is
// written. The policy of a base chain is changed in place, and a chain with another hook is
// replaced alone. But for a set of another type the whole table is replaced, and all counters start
// at zero.
//
// # Refusals
//
// If the kernel refuses a transaction, the Applier reads the table back and retries once. If it is
// refused again, the Applier finds the objects at fault from the kernel's answers, or by bisection
// if these name none; the kernel checks the trial transactions without committing them. A chain at
// fault is then programmed as one that drops. A set at fault is left out, and the chains that look
// into it drop. Everything else is programmed, so no packet passes that the new state forbids. If a
// base chain is at fault, nothing is written. While an object is held back, every call reads the
// table back and tries it again.
//
// # Concurrency
//
// An Applier is for one goroutine at a time. Only Watch and Table may be called from other
// goroutines meanwhile.
//
// # Errors
//
// An error of the kernel is an *Error, with the kernel's message as its Detail. Its
// cause is an *ObjectError for each object that is held back, in which case everything else is
// programmed. It is an *OwnedError if another process owns the table.
// After any error the desired state stays, and the next call tries again.
package applier
