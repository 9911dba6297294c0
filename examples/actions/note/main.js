const fs = require('fs')
const text = process.env.INPUT_TEXT
const add = (file, line) => fs.appendFileSync(process.env[file], line + '\n')
add('GITHUB_ENV', `NOTED=${text}`)
add('GITHUB_OUTPUT', 'number=1')
add('GITHUB_STATE', `text=${text}`)
add('GITHUB_STEP_SUMMARY', `- ${text}`)
console.log(`::notice title=Note::${text}`)
