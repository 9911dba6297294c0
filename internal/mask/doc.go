// Package mask keeps secrets out of logs: it replaces every secret in a stream of bytes with [MASKED].
//
// # What is recognised
//
// A secret is found as it is, and in the forms in which programs print it: JSON strings, URLs, base64 (at any alignment
// inside a longer encoding), hexadecimal with and without separators, UTF-16, JSON in JSON strings, shell traces and quotes, HTML and XML, and the pieces that PowerShell prints of it
// (see forms). White space around a secret does not belong to it. Each line of a secret of several lines is a secret too, white space around it left out. A form of
// 2*partSize bytes or more is cut in parts of partSize bytes, and every part is masked wherever it occurs, so that the cost
// of a secret and the text held back for it have a bound.
//
// Escape sequences (CSI, OSC and the other strings, short ones) and line breaks (\r, \n) inside a secret do not hide it. A
// secret inside an escape sequence, such as a window title, is found as well: a sequence is read both as a sequence and as
// text. A sequence ends at the latest after maxSequence bytes or at a line break; what follows is text again.
//
// Who cuts a text for a message does not know what is secret in it, so the beginning of a secret is masked too where an ellipsis (…) says
// that the text was cut there; quotes and brackets may stand between. One that may come out at the end of a line (see below) may come out there.
//
// Not recognised are forms of forms (base64 of hexadecimal), compressed or encrypted secrets, and secrets that are cut in
// pieces with text between them.
//
// # What comes out
//
// The text of a secret becomes one [MASKED]; overlapping secrets become one too, and adjacent ones become one each. Line
// breaks and escape sequences inside a secret are kept, after the [MASKED], so that lines still count and colours are still
// switched off. All other bytes come out as they went in, whatever they are.
//
// # What is held back
//
// A [Writer] holds back what may be the beginning of a secret, and nothing else, until more is written or the stream ends.
// Where the bytes are cut into writes does not change the result, with two exceptions:
//
//   - A complete line comes out at once. When a write ends in a line break (escape sequences may follow it) and what stands
//     before it may be the beginning of a secret, that beginning comes out if it is shorter than releaseLimit bytes and not
//     more than half of the secret. It is remembered: if the secret goes on after the line break, the rest of it is masked.
//   - When more than maxHeld bytes would be held back, which takes thousands of bytes of escape sequences or line breaks
//     inside a secret, the beginning comes out under the same rule, or else as [MASKED], even if no secret follows.
//
// # Cost
//
// Where all forms are long enough, not too many, and compiled together, one pass over the text skips what cannot begin one, several bytes at a time. Otherwise
// it tests each position against a bitmap of the first four bytes of all forms. Only candidates are
// compared, by a walk down a radix tree that takes at most 2*partSize steps however many secrets share a prefix. Memory
// depends on the secrets (about 4 KiB each) and not on the log.
package mask
