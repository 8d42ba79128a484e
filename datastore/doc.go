// SPDX-License-Identifier: Apache-2.0

// Package datastore is where desired state comes from: the Source interface, and sources that need
// nothing but this module.
//
//	Memory  a map in the process, for embedding and for tests; also a Sink
//	Dir     a folder of files, JSON unless told otherwise, watched for changes (Linux)
//	Union   several sources as one: of an object that several have, the first counts
//
//	Sink.Update ─▶ Memory ─┐
//	                       ├─▶ Receiver.Update ... Receiver.InSync ... Receiver.Update ...
//	files in a folder ─▶ Dir
//
// # Usage
//
// Run a source with the receiver of its updates, usually a calcgraph.Runner:
//
//	dir, err := datastore.NewDir(datastore.DirConfig{
//		Path:     "/etc/wayleave",
//		Rejected: func(file string, err error) { log.Print(file, ": ", err) },
//	})
//	if err != nil {
//		return err
//	}
//	return dir.Run(ctx, receiver)
//
// A source of another kind, say of a cluster's database, is any type with such a Run method.
//
// # What a Dir does with what it cannot read
//
// A file that cannot be read or decoded is reported, and the objects that it held before are absent
// until it is mended: a last good version is never kept. All other files are used as usual. A
// policy with rules that cannot be read is reported with a *policy.DoubtError, and passed on with
// these rules closed. Where several files hold the same object, the first in the order of their
// names counts and the others are reported.
//
// A directory that is missing when Run starts is an error, unless DirConfig.Wait is set. One that
// is moved away, replaced or removed later says nothing about the objects in it, as a database that
// does not answer says nothing about its content: that is reported, the objects stay as they are,
// and the directory is read afresh as soon as there is one at the path again. Files that were
// deleted one by one before, as "rm -r" does, are gone nonetheless.
//
// # Concurrency
//
// Memory and Dir are safe for concurrent use and may run several times at once. A Union is safe for
// concurrent use and runs once. A receiver is called from one goroutine a Run, and that of a Union
// by one goroutine at a time.
//
// # Errors
//
// Run returns the error of its context when that is done, the receiver's error when the receiver
// fails, or its own, with the prefix "datastore:". A *ConflictError tells of an object that two
// files hold. ErrKeyMismatch is an update whose resource is not the one that its key names.
package datastore
