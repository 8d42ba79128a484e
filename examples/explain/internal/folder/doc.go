// SPDX-License-Identifier: Apache-2.0

// Package folder reads files and folders of manifests. It returns the resources for the policy
// evaluator, and the objects that were rejected. It also returns the pods that policy does not
// apply to, such as pods on the host network.
//
// # Usage
//
//	f, err := folder.Read(folder.Config{Paths: []string{"manifests"}})
//	fmt.Println(f.Evaluator.Explain(flow))
//	for _, problem := range f.Rejected { ... } // objects that the evaluator does not have
//
// # Concurrency
//
// Read may be called several times at once. A Folder does not change afterwards.
//
// # Errors
//
// Read returns an error if there is nothing to read. Errors of objects are in Folder.Rejected; all
// other objects are used.
package folder
