// SPDX-License-Identifier: Apache-2.0

// Command moduleproxy writes the modules of this repository to a folder that the go command can use
// as GOPROXY, as if they had been published. It reads the modules from a commit, so it leaves out
// the same files as a real proxy.
//
// # Usage
//
//	moduleproxy -version v0.1.0 -commit HEAD -out FOLDER [FOLDER OF A MODULE]...
//
// Run the command at the root of the repository. Each argument is the folder of a module, relative
// to the root. The default is ".", the module at the root. Then use GOPROXY=file://FOLDER.
//
// # Concurrency
//
// The program has one goroutine.
//
// # Errors
//
// The program ends with exit code 1 in these cases, among others:
//
//   - A folder has no go.mod.
//   - A go.mod has replace directives.
//   - A module requires one of the other modules in a version other than -version.
package main
