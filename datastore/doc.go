// SPDX-License-Identifier: Apache-2.0

// Package datastore defines the Source of desired state, and has sources that need only this
// module.
//
//	Memory  a map in the process, for embedding and for tests; also a Sink
//	Dir     a folder of files, by default JSON, watched for changes (Linux)
//	Union   several sources as one; if several sources have an object, it uses that of the first source
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
// Any other type with such a Run method is a source, for example one that reads the database of a
// cluster.
//
// # Unreadable files and directories
//
// If a file cannot be read or decoded, a Dir reports the file and removes its objects until the
// file is corrected. It never keeps the last valid version. All other files are used as usual.
//
// If only some rules of a policy cannot be decoded, the Dir reports a *policy.DoubtError, and sends
// the policy to the receiver nevertheless. In the policy, these rules are closed (see
// policy.Rule.Close): a closed Allow matches nothing, and a closed Deny denies everything.
//
// If several files have the same object, the Dir uses the copy in the first file in the order of
// names, and reports the others.
//
// If the directory is missing when Run starts, Run returns an error, unless DirConfig.Wait is set.
// If the directory is moved, replaced or removed later, the Dir reports that, and the receiver
// keeps the objects. As soon as there is a directory at the path again, the Dir reads it. But "rm
// -r" deletes the files one by one before it removes the directory, so the Dir deletes the objects
// of these files.
//
// # Concurrency
//
// Memory and Dir are safe for concurrent use, and you may call their Run several times at once. A
// Union is safe for concurrent use, but call its Run only once. Each Run calls its receiver from
// one goroutine at a time.
//
// # Errors
//
// Run returns one of these errors:
//
//   - the error of its context, when the context is done
//   - the error of the receiver
//   - an error of the source, with the prefix "datastore:"
//
// A *ConflictError reports an object that two files have. ErrKeyMismatch is the error of an update
// whose key is not the key of its resource.
package datastore
