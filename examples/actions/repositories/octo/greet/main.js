const fs = require('fs')
const greeting = `${process.env.STATE_word} ${process.env.INPUT_WHO}`
console.log(greeting)
fs.appendFileSync(process.env.GITHUB_OUTPUT, `greeting<<END\n${greeting}\nEND\n`)
fs.appendFileSync(process.env.GITHUB_ENV, `GREETING=${greeting}\n`)
