// SPDX-License-Identifier: Apache-2.0

// Package fence has a Log for tests that use testing/synctest. The Log keeps the log of the code
// under test. Its method Cross prevents false reports of the race detector.
//
// In such a test, the code under test calls fakes. The fakes write memory, and the test reads this
// memory after synctest.Wait. Wait orders these writes before the reads. But nothing orders the
// reads before the next writes of the fakes, so the race detector reports a data race. Therefore
// the test calls Cross after it has read, and each fake calls Cross before it writes. The reads and
// the next writes are then ordered, too. Write calls Cross itself.
//
// # Usage
//
//	log := fence.NewLog()
//	logger := slog.New(slog.NewTextHandler(log, nil)) // for the code under test
//
//	// in each fake:
//	log.Cross()
//	calls++
//
//	// in the test, for each step:
//	log.Cross() // the reads of the step before have ended
//	time.Sleep(d)
//	synctest.Wait()
//	... read calls and log.String() ...
//
// # Concurrency
//
// Cross and Write may be called from any goroutine, String after synctest.Wait.
//
// # Errors
//
// There are no errors.
package fence
