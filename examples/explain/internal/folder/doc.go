// SPDX-License-Identifier: Apache-2.0

// Package folder reads files and folders of manifests into a world that can be asked about,
// together with all that one should know about the answers: what was refused, and which pods are
// none to policy.
//
// # Usage
//
//	f, err := folder.Read(folder.Config{Paths: []string{"manifests"}})
//	fmt.Println(f.Evaluator.Explain(flow))
//	for _, problem := range f.Rejected { ... } // the answer is about a world without these
//
// # Concurrency
//
// Read may be called several times at once. A Folder does not change afterwards.
//
// # Errors
//
// Read returns an error where there is nothing to read. What is wrong with an object of a manifest
// is in Folder.Rejected instead: every other object counts.
package folder
