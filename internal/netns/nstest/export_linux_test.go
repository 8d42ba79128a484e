// SPDX-License-Identifier: Apache-2.0

package nstest

// WithoutFlowtables is withoutFlowtables, for the tests.
var WithoutFlowtables = withoutFlowtables
